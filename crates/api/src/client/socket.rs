//! Talking to a server through a socket of this machine, where the kernel tells the server who is calling.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;
use ureq::Agent;
use ureq::config::Config;
use ureq::unversioned::resolver::{ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{
    Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport,
};

/// An agent all of whose requests go through one socket, whatever host they name.
pub(super) fn agent(config: Config, path: PathBuf) -> Agent {
    Agent::with_parts(config, ToSocket { path }, NoNames)
}

#[derive(Debug)]
struct ToSocket {
    path: PathBuf,
}

impl Connector for ToSocket {
    type Out = Connected;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        _chained: Option<()>,
    ) -> Result<Option<Connected>, ureq::Error> {
        let stream = UnixStream::connect(&self.path)?;
        let config = details.config;
        let buffers = LazyBuffers::new(config.input_buffer_size(), config.output_buffer_size());
        Ok(Some(Connected { stream, buffers }))
    }
}

/// A socket needs no names looked up.
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
    stream: UnixStream,
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

    fn is_open(&mut self) -> bool {
        let nothing_to_read = |stream: &mut UnixStream| {
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
