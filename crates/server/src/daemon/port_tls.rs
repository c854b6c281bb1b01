//! TLS of the server's port: whether it is spoken, with which certificate, and how others reach and know the server by it.

use super::{DaemonError, Options, host_name};
use crate::app::Reached;
use crate::config::TlsMode;
use crate::hosts::split;
use crate::tls::{ServerTls, interface_addresses, names_of};
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// TLS of a server that listens at an address, if it speaks it: by default on every address but loopback.
pub(super) fn of(
    options: &Options,
    data: &Path,
    address: SocketAddr,
) -> Result<Option<ServerTls>, DaemonError> {
    let (config, loopback) = (&options.config.tls, address.ip().to_canonical().is_loopback());
    match options.tls.or(config.mode).unwrap_or_default() {
        TlsMode::Auto if loopback => return Ok(None),
        TlsMode::Off => {
            if !loopback {
                tracing::warn!(
                    "the port {address} speaks plain HTTP: whoever listens in on the network learns tokens and jobs; leave \
                     --tls off out unless something in front of it speaks TLS"
                );
            }
            return Ok(None);
        }
        TlsMode::Auto | TlsMode::On => {}
    }
    let tls = match (&config.cert, &config.key) {
        (Some(cert), Some(key)) => ServerTls::with_files(cert, key, config.ca.as_deref())?,
        (Some(_), None) => return Err(DaemonError::HalfTls("cert")),
        (None, Some(_)) => return Err(DaemonError::HalfTls("key")),
        (None, None) => {
            let configured = options.config.hosts.iter().map(|host| split(host).0);
            let listens = (!address.ip().is_unspecified()).then(|| address.ip().to_string());
            ServerTls::with_own_ca(data, names_of(configured.chain(listens), &host_name()))?
        }
    };
    Ok(Some(tls))
}

/// The scheme of the port's address.
pub(super) fn scheme(tls: Option<&ServerTls>) -> &'static str {
    if tls.is_some() { "https" } else { "http" }
}

/// How others reach the server: by the first configured name, the address it listens on, or where that is every address, one
/// of the machine's own.
pub(super) fn reached(options: &Options, address: SocketAddr, tls: Option<&ServerTls>) -> Reached {
    let host = match options.config.hosts.first().map(|host| split(host)) {
        Some((name, port)) => with_port(&name, port.unwrap_or(address.port())),
        None if !address.ip().is_unspecified() => address.to_string(),
        None => match network_address() {
            Some(ip) => SocketAddr::new(ip, address.port()).to_string(),
            None => with_port(&host_name(), address.port()),
        },
    };
    Reached { url: format!("{}://{host}", scheme(tls)), ca: tls.and_then(|tls| tls.ca().cloned()) }
}

fn with_port(name: &str, port: u16) -> String {
    if name.contains(':') { format!("[{name}]:{port}") } else { format!("{name}:{port}") }
}

/// An address of this machine that others can use: an IPv4 one before others, since a link-local address needs an interface.
fn network_address() -> Option<IpAddr> {
    let usable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local(),
    };
    let mut all: Vec<_> = interface_addresses().filter(usable).collect();
    all.sort_by_key(IpAddr::is_ipv6);
    all.first().copied()
}
