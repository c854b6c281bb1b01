//! The hosts a server answers for, by the header `Host`. A page of another site whose name is made to lead here (DNS
//! rebinding) names its own host and is refused; and which host was named decides where cookies are trusted, because a
//! browser sends those of a name to every port of it.

use std::net::{IpAddr, SocketAddr};

/// The names and addresses a server goes by.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hosts {
    /// `hosts` of the configuration: a name, with a port where one is given.
    configured: Vec<(String, Option<u16>)>,
    /// The name of this machine.
    machine: String,
    /// Whether the server listens on more than this machine's own addresses.
    networked: bool,
}

/// What a request calls the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostKind {
    /// A name below `.localhost`, as links that log people in have it. Only who was given it knows it, so only there a
    /// cookie is safe from other ports.
    Pages(String),
    /// This machine by a name everyone knows. Any user may listen on another port of it, so no cookie counts.
    Loopback,
    /// A name or address by which the network knows this machine.
    Network,
}

impl Hosts {
    /// The hosts of a server that listens at an address, by the configured names as well.
    pub(crate) fn new(configured: &[String], machine: &str, listens: SocketAddr) -> Hosts {
        let configured = configured.iter().map(|host| split(host)).collect();
        Hosts { configured, machine: normal(machine), networked: !listens.ip().to_canonical().is_loopback() }
    }

    /// What kind of host that is; none where the server does not answer for it.
    pub(crate) fn kind(&self, host: &str) -> Option<HostKind> {
        let (name, port) = split(host);
        let own = if self.networked { HostKind::Network } else { HostKind::Loopback };
        match ip(&name) {
            _ if self.is_configured(&name, port) => Some(HostKind::Network),
            Some(ip) if ip.is_loopback() => Some(HostKind::Loopback),
            // A browser is led to an address by nobody's name, so it is not the address of another site.
            Some(_) => Some(own),
            None if name == "localhost" => Some(HostKind::Loopback),
            None if name.ends_with(".localhost") => Some(HostKind::Pages(name)),
            None if !name.is_empty() && name == self.machine => Some(own),
            None => None,
        }
    }

    /// Whether the server may prove to a client that reached it by this host that it is the one: only for the address the
    /// connection came in at, or a configured name. For any other, whoever listens there could have passed the question on.
    pub(crate) fn vouches_for(&self, host: &str, local: SocketAddr) -> bool {
        let (name, port) = split(host);
        let port = port.unwrap_or(80);
        let dialled = ip(&name).is_some_and(|ip| ip == local.ip().to_canonical());
        let named = self.configured.iter().any(|(n, p)| *n == name && p.unwrap_or(local.port()) == port);
        dialled && port == local.port() || named
    }

    /// The host of a link that logs someone in: the unguessable name where people are on this machine, or come through a
    /// tunnel; otherwise a name by which the network may know it.
    pub(crate) fn of_link(&self, unguessable: &str, listens: SocketAddr) -> String {
        match (self.networked, self.configured.first()) {
            (false, _) => format!("{unguessable}:{}", listens.port()),
            (true, Some((name, port))) => format!("{name}:{}", port.unwrap_or(listens.port())),
            (true, None) if !listens.ip().is_unspecified() => listens.to_string(),
            (true, None) => format!("{}:{}", self.machine, listens.port()),
        }
    }

    fn is_configured(&self, name: &str, port: Option<u16>) -> bool {
        self.configured.iter().any(|(n, p)| n == name && (p.is_none() || *p == port))
    }
}

/// The port that a host names.
pub(crate) fn port_of(host: &str) -> Option<u16> {
    split(host).1
}

/// A host as its name and its port. The brackets of an IPv6 address are no part of the name.
pub(crate) fn split(host: &str) -> (String, Option<u16>) {
    let host = host.trim();
    if let Some((v6, rest)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return (normal(v6), rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') => match port.parse() {
            Ok(port) => (normal(name), Some(port)),
            Err(_) => (normal(host), None),
        },
        _ => (normal(host), None),
    }
}

fn normal(name: &str) -> String {
    name.trim().trim_end_matches('.').to_ascii_lowercase()
}

fn ip(name: &str) -> Option<IpAddr> {
    name.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(configured: &[&str], listens: &str) -> Hosts {
        let configured: Vec<String> = configured.iter().map(ToString::to_string).collect();
        Hosts::new(&configured, "gpu1", listens.parse().expect("an address"))
    }

    #[test]
    fn names_of_other_sites_are_nobody_here() {
        let own = hosts(&["lab.example", "tunnel.example:9000"], "127.0.0.1:7700");
        let kinds = [
            ("localhost:7700", Some(HostKind::Loopback)),
            ("LOCALHOST.", Some(HostKind::Loopback)),
            ("127.0.0.1:7700", Some(HostKind::Loopback)),
            ("127.9.9.9", Some(HostKind::Loopback)),
            ("[::1]:7700", Some(HostKind::Loopback)),
            ("gpu1:7700", Some(HostKind::Loopback)),
            ("wy-3f.localhost:7700", Some(HostKind::Pages("wy-3f.localhost".into()))),
            ("lab.example:80", Some(HostKind::Network)),
            ("tunnel.example:9000", Some(HostKind::Network)),
            ("tunnel.example:9001", None),
            ("evil.example:7700", None),
            ("localhost.evil.example", None),
            ("evil.example@127.0.0.1", None),
            ("", None),
            ("x", None),
        ];
        for (host, kind) in kinds {
            assert_eq!(own.kind(host), kind, "{host}");
        }
        assert_eq!(hosts(&[], "0.0.0.0:7700").kind("gpu1:7700"), Some(HostKind::Network));
        assert_eq!(hosts(&[], "0.0.0.0:7700").kind("10.0.0.7:7700"), Some(HostKind::Network));
    }

    #[test]
    fn a_proof_is_given_for_the_address_that_was_dialled_and_for_configured_names() {
        let own = hosts(&["lab.example", "localhost:9000"], "127.0.0.1:7700");
        let local = "127.0.0.1:7700".parse().expect("an address");
        for (host, vouched) in [
            ("127.0.0.1:7700", true),
            ("127.0.0.1:7701", false),
            ("127.0.0.2:7700", false),
            ("[::1]:7700", false),
            ("localhost:7700", false),
            ("gpu1:7700", false),
            ("lab.example:7700", true),
            ("lab.example:7701", false),
            ("localhost:9000", true),
        ] {
            assert_eq!(own.vouches_for(host, local), vouched, "{host}");
        }
        let mapped = "[::ffff:127.0.0.1]:7700".parse().expect("an address");
        assert!(own.vouches_for("127.0.0.1:7700", mapped), "a server may listen on both kinds at once");
    }
}
