//! Connectors for `ureq`: connections are those of [`stream`](super::stream), verified before the first request.
//! Through a proxy, the server must give the same proof.

use super::discovery::Target;
use super::stream::{Stream, host_and_port, prove};
use std::io::{self, Read, Write};
use std::time::Duration;
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, DefaultConnector, LazyBuffers, NextTimeout, Transport,
    TransportAdapter,
};

/// An agent whose requests all go to one server.
pub(super) fn agent(config: Config, target: &Target) -> Agent {
    let to = ToServer { target: target.clone() };
    match () {
        () if target.is_socket() => Agent::with_parts(config, to, NoNames),
        () if config.proxy().is_some() => {
            let through_proxy = DefaultConnector::default().chain(Proven { target: target.clone() });
            Agent::with_parts(config, through_proxy, DefaultResolver::default())
        }
        () => Agent::with_parts(config, to, DefaultResolver::default()),
    }
}

/// Connects without a proxy.
#[derive(Debug)]
struct ToServer {
    target: Target,
}

impl Connector for ToServer {
    type Out = Connected;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<Connected>, ureq::Error> {
        let stream = Stream::connect(&self.target, Some(&details.addrs))?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Connected { stream, buffers }))
    }
}

/// Verifies the server on a connection through a proxy.
#[derive(Debug)]
struct Proven {
    target: Target,
}

impl<T: Transport> Connector<T> for Proven {
    type Out = T;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<T>) -> Result<Option<T>, ureq::Error> {
        let Some(transport) = chained else { return Ok(None) };
        let mut adapter = TransportAdapter::new(transport, details.current_time.clone());
        adapter.set_timeout(details.timeout);
        prove(&mut adapter, &[&host_and_port(&self.target.url)], self.target.token.as_deref())?;
        Ok(Some(adapter.into_inner()))
    }
}

/// A resolver for sockets, which have no host names.
#[derive(Debug)]
struct NoNames;

impl Resolver for NoNames {
    fn resolve(
        &self,
        _uri: &ureq::http::Uri,
        _config: &Config,
        _timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let mut addresses = self.empty();
        // The connector never looks at it, but a list without any is an error.
        addresses.push(([127, 0, 0, 1], 0).into());
        Ok(addresses)
    }
}

#[derive(Debug)]
struct Connected {
    stream: Stream,
    buffers: LazyBuffers,
}

impl Transport for Connected {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.stream.set_write_timeout(limit(&timeout))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|e| late_or_broken(e, &timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.stream.set_read_timeout(limit(&timeout))?;
        let read = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let length = read.map_err(|e| late_or_broken(e, &timeout))?;
        self.buffers.input_appended(length);
        Ok(length > 0)
    }

    fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    fn is_open(&mut self) -> bool {
        let nothing_to_read = |stream: &mut Stream| {
            stream.set_nonblocking(true)?;
            let read = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            Ok::<_, io::Error>(matches!(read, Err(e) if e.kind() == io::ErrorKind::WouldBlock))
        };
        nothing_to_read(&mut self.stream).unwrap_or(false)
    }
}

fn limit(timeout: &NextTimeout) -> Option<Duration> {
    timeout.not_zero().map(|duration| *duration)
}

fn late_or_broken(error: io::Error, timeout: &NextTimeout) -> ureq::Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ureq::Error::Timeout(timeout.reason),
        _ => error.into(),
    }
}
