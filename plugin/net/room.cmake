# The mesh transport; compiled with its ABI (plugin/nccl/room.cmake). The lists name files, since what a message passes
# and what runs while connections are made stand side by side in each layer's folder.

# What every message passes.
meshbed_files(net_data_path
    rdma/send_path.cpp relay/circuit.cpp link/connection.cpp rdma/direct_send_path.cpp link/endpoint.cpp
    link/event_log.cpp link/flusher.cpp link/qp_link.cpp wire/piece.cpp rdma/receive.cpp rdma/receive_announce.cpp
    rdma/receive_flush.cpp rdma/receive_rails.cpp relay/relay_entry.cpp relay/relay_exit.cpp rdma/relayed_send_path.cpp
    rdma/send.cpp service/service_thread.cpp connect/service_call.cpp rdma/striped_send_path.cpp tcp/tcp_connection.cpp
    tcp/tcp_receive.cpp tcp/tcp_send.cpp)

# What decides, reads and writes without any verbs.
meshbed_files(net_rules
    wire/neighbour_map.cpp wire/discovery_message.cpp process/config.cpp wire/handle.cpp process/mesh_graph.cpp
    process/nic.cpp process/nic_filter.cpp process/peer_address.cpp process/route_table.cpp connect/first_messages.cpp
    link/request.cpp connect/agreement_book.cpp connect/attendance.cpp connect/rank_announcement.cpp
    connect/routing.cpp wire/socket.cpp state/state_socket.cpp state/state_text.cpp report/report_text.cpp
    rdma/striping.cpp wire/tcp_frame.cpp tcp/tcp_interfaces.cpp wire/wire.cpp)

meshbed_sources(net_sources . *)
