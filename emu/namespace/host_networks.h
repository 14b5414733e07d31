#pragma once
// HostNetworks: does this host have networks or routing rules that a cluster inside its kernel would disturb?

#include <string>
#include <vector>

namespace meshbed::emu {

/// Throws std::runtime_error where one of the addresses ("192.168.100.1/24") lies in a network of this host, or a
/// network of theirs holds an address of this host: the host would no longer reach that network.
void require_free_networks(const std::vector<std::string>& addresses);

/// `rules`: what `command` ("ip -4 rule") printed. Throws std::runtime_error unless the table of local addresses is
/// asked first, and no rule has a preference between it and where it is to be moved (kNamespaceLocalPreference).
void require_plain_rules(const std::string& rules, const std::string& command);

}  // namespace meshbed::emu
