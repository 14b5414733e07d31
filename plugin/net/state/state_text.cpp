#include "plugin/base/json_text.h"
#include "plugin/net/process/state.h"

namespace meshbed::net {
namespace {

/// Numbers of 64 bits are hexadecimal text, because many JSON readers round beyond 53 bits.
std::string hex(std::uint64_t number) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text = "0x";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[number >> static_cast<unsigned>(shift) & 0xfU];
  return text;
}

void write_texts(JsonText& json, const char* key, const std::vector<std::string>& texts) {
  json.open_list(key);
  for (const std::string& text : texts) json.text(nullptr, text);
  json.close_list();
}

void write(JsonText& json, const NicState& nic) {
  json.open_object()
      .text("name", nic.name)
      .signed_number("port", nic.port)
      .text("netdev", nic.netdev)
      .text("pci_path", nic.pci_path)
      .text("guid", hex(nic.guid))
      .flag("link_up", nic.link_up)
      .number("rate_mbps", nic.rate_mbps)
      .signed_number("rail", nic.rail)
      .signed_number("plane", nic.plane);
  write_texts(json, "addresses", nic.addresses);
  write_texts(json, "gids", nic.gids);
  json.close_object();
}

void write(JsonText& json, const char* key, const HintState& hint) {
  json.open_object(key)
      .signed_number("peers_max", hint.peers_max)
      .signed_number("peers_min", hint.peers_min)
      .signed_number("flows_max", hint.flows_max)
      .signed_number("flows_min", hint.flows_min)
      .close_object();
}

void write(JsonText& json, const CommunicatorState& communicator) {
  json.open_object().text("comm", hex(communicator.comm)).number("hints", communicator.hints);
  write(json, "send", communicator.send);
  write(json, "receive", communicator.receive);
  json.signed_number("op", communicator.op)
      .signed_number("algo", communicator.algo)
      .signed_number("proto", communicator.proto)
      .close_object();
}

void write(JsonText& json, const char* key, const EndState& end) {
  json.open_object(key)
      .text("nic", end.nic)
      .text("address", end.address)
      .text("gid", end.gid)
      .number("qp", end.qp)
      .close_object();
}

void write(JsonText& json, const RequestState& request) {
  json.open_object().open_list("tags");
  for (const int tag : request.tags) json.signed_number(nullptr, tag);
  json.close_list().number("size_bytes", request.size_bytes).known_number("age_ms", request.age_ms).close_object();
}

void write(JsonText& json, const ConnectionState& connection) {
  json.open_object()
      .text("direction", connection.sends ? "send" : "recv")
      .text("name", connection.name)
      .text("comm", hex(connection.comm))
      .flag("busy", connection.busy);
  if (!connection.busy) {
    write(json, "ours", connection.ours);
    write(json, "theirs", connection.theirs);
    json.text("peer", connection.peer)
        .flag("relayed", connection.relayed)
        .text("way", connection.way)
        .text("state", connection.phase)
        .text("reason", connection.reason)
        .number("posted", connection.posted)
        .number("done", connection.done)
        .number("bytes", connection.bytes)
        .number("resumed", connection.resumed)
        .known_number("quiet_ms", connection.quiet_ms)
        .text("waits_for", connection.waits_for)
        .number("outstanding_count", connection.outstanding_count)
        .open_list("outstanding");
    for (const RequestState& request : connection.outstanding) write(json, request);
    json.close_list();
  }
  json.close_object();
}

void write(JsonText& json, const HandshakeState& handshake) {
  json.open_object()
      .text("side", handshake.connects ? "connect" : "accept")
      .text("comm", hex(handshake.comm))
      .text("nic", handshake.nic)
      .text("peer", handshake.peer)
      .known_number("age_ms", handshake.age_ms)
      .known_number("asked_ms", handshake.asked_ms)
      .number("accepted", handshake.accepted)
      .text("waits_for", handshake.waits_for)
      .close_object();
}

void write(JsonText& json, const CircuitState& circuit) {
  json.open_object()
      .text("name", circuit.name)
      .number("pieces", circuit.pieces)
      .number("bytes", circuit.bytes)
      .number("held", circuit.held)
      .number("credits", circuit.credits)
      .text("waits_for", circuit.waits_for)
      .close_object();
}

}  // namespace

std::string to_json(const ProcessState& state) {
  JsonText json;
  json.open_object()
      .signed_number("format", kStateFormat)
      .text("version", state.version)
      .signed_number("pid", state.pid)
      .text("host", state.host)
      .text("node", hex(state.node))
      .text("process", hex(state.process))
      .number("service_port", state.service_port)
      .known_number("listeners", state.listeners)
      .known_number("registrations", state.registrations)
      .known_number("sessions", state.sessions);
  const auto write_all = [&json](const char* key, const auto& values) {
    json.open_list(key);
    for (const auto& value : values) write(json, value);
    json.close_list();
  };
  write_all("nics", state.nics);
  write_all("communicators", state.communicators);
  write_all("connections", state.connections);
  write_all("handshakes", state.handshakes);
  write_all("circuits", state.circuits);
  json.close_object();
  return json.take();
}

}  // namespace meshbed::net
