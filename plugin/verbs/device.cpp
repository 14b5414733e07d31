#include "plugin/verbs/device.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>

#include "plugin/base/log.h"

namespace meshbed::verbs {
namespace {

Error device_error(const std::string& what, int error_number) {
  return {.code = ErrorCode::kSystem,
          .scope = Scope::kDevice,
          .text = what + ": " + std::strerror(error_number),
          .os_errno = error_number};
}

/// Mb/s of one lane, from ibv_port_attr::active_speed (a bit, see ibv_devinfo -v).
std::uint32_t lane_mbps(std::uint8_t speed) {
  switch (speed) {
    case 1:
      return 2'500;
    case 2:
      return 5'000;
    case 4:
    case 8:
      return 10'000;
    case 16:
      return 14'000;
    case 32:
      return 25'000;
    case 64:
      return 50'000;
    case 128:
      return 100'000;
    default:
      return 0;
  }
}

std::uint32_t lanes(std::uint8_t width) {
  switch (width) {
    case 1:
      return 1;
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 0;
  }
}

}  // namespace

std::uint32_t mtu_bytes(std::uint8_t mtu) { return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128U << mtu : 0U; }

Result<std::vector<std::unique_ptr<Device>>> Device::open_all(bool relaxed_ordering) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) {
    // A machine without RDMA modules fails with ENOSYS: it has no devices, which is not an error.
    if (errno == ENOSYS) return std::vector<std::unique_ptr<Device>>{};
    return device_error("cannot list RDMA devices", errno);
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (int index = 0; index < count; ++index) {
    auto device = open(list[index], relaxed_ordering);
    if (device) {
      devices.push_back(std::move(*device));
    } else if (const int problem = device.error().os_errno; problem == EMFILE || problem == ENFILE) {
      // It is this process that has no room for the device, not the device that is of no use.
      ibv_free_device_list(list);
      return device.error();
    } else {
      MESHBED_WARN("%s: left out", device.error().text.c_str());
    }
  }
  ibv_free_device_list(list);
  return devices;
}

Result<std::unique_ptr<Device>> Device::open(ibv_device* raw, bool relaxed_ordering) {
  std::unique_ptr<Device> device(new Device);
  device->name_ = ibv_get_device_name(raw);
  device->context_.reset(ibv_open_device(raw));
  if (!device->context_) return device_error("cannot open " + device->name_, errno);
  if (const int error = ibv_query_device(device->context(), &device->attributes_)) {
    return device_error("cannot query " + device->name_, error);
  }
  device->pd_.reset(ibv_alloc_pd(device->context()));
  if (!device->pd_) return device_error("no protection domain on " + device->name_, errno);
  device->registrations_ = std::make_unique<RegistrationCache>(device->pd(), relaxed_ordering);
  device->registers_dma_buf_ = knows_dma_buf(device->pd());
  const int flags = ::fcntl(device->event_descriptor(), F_GETFL);
  if (flags < 0 || ::fcntl(device->event_descriptor(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return device_error("cannot read the events of " + device->name_, errno);
  }
  return device;
}

std::optional<DeviceEvent> Device::next_event() const {
  ibv_async_event event{};
  if (ibv_get_async_event(context(), &event) != 0) return std::nullopt;
  ibv_ack_async_event(&event);
  DeviceEvent taken{.type = event.event_type};
  switch (event.event_type) {
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      taken.port = static_cast<std::uint8_t>(event.element.port_num);
      break;
    default:
      break;
  }
  return taken;
}

Result<PortState> Device::query_port(std::uint8_t port) const {
  ibv_port_attr attr{};
  if (const int error = ibv_query_port(context(), port, &attr)) {
    return device_error("cannot query port " + std::to_string(port) + " of " + name_, error);
  }
  return PortState{.number = port,
                   .ethernet = attr.link_layer == IBV_LINK_LAYER_ETHERNET,
                   .active = attr.state == IBV_PORT_ACTIVE,
                   .mtu = static_cast<std::uint8_t>(attr.active_mtu),
                   .rate_mbps = lane_mbps(attr.active_speed) * lanes(attr.active_width),
                   .max_message_bytes = attr.max_msg_sz,
                   .gid_entries = attr.gid_tbl_len};
}

std::vector<GidEntry> Device::gids(const PortState& port) const {
  return read_gids({.context = context(),
                    .device = name_,
                    .port = port.number,
                    .entries = port.gid_entries,
                    .device_ports = attributes_.phys_port_cnt});
}

}  // namespace meshbed::verbs
