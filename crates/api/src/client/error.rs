//! What can go wrong between a caller and the server.

use crate::problem::render_bare;
use crate::wire::ProblemBody;
use std::io;
use std::path::PathBuf;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody answers there.
    #[error("{}", unreachable(url, source))]
    Unreachable {
        /// The server's address.
        url: String,
        /// What the network said.
        source: Box<ureq::Error>,
    },
    /// No server was named and none left its address.
    #[error(
        "no server is known: there is no {}; start one with `warpyard up`, or say where it is with --server",
        path.display()
    )]
    NoAddress {
        /// Where its address would be.
        path: PathBuf,
    },
    /// The server's address or token is there but cannot be read.
    #[error("cannot read {}", path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The text is not the address of a server.
    #[error("'{url}' is not the address of a server: {fault}; write http://host:port")]
    BadAddress {
        /// What was given.
        url: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The server does not know the caller.
    #[error("{}", unauthorised(url, *had_token))]
    Unauthorised {
        /// The server's address.
        url: String,
        /// Whether a token was sent at all.
        had_token: bool,
    },
    /// The server said no.
    #[error("{}", refused(.0))]
    Refused(Box<ProblemBody>),
    /// The server said something that is not what it should be, as another version might.
    #[error("the server at {url} answered {status} with something unexpected")]
    Unreadable {
        /// The server's address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What was wrong with the answer.
        source: Box<ureq::Error>,
    },
}

impl ClientError {
    /// What the command line exits with: 2 where the request was wrong, 3 where no server could take it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(body) if body.status < 500 => 2,
            Self::Unauthorised { .. } | Self::BadAddress { .. } => 2,
            Self::Unreachable { .. }
            | Self::NoAddress { .. }
            | Self::UnreadableFile { .. }
            | Self::Refused(_)
            | Self::Unreadable { .. } => 3,
        }
    }
}

fn unreachable(url: &str, source: &ureq::Error) -> String {
    match source {
        ureq::Error::Io(e) if e.kind() == io::ErrorKind::ConnectionRefused => {
            format!("no server at {url}; start one with `warpyard up`")
        }
        ureq::Error::Timeout(_) => format!("the server at {url} does not answer in time"),
        ureq::Error::HostNotFound => format!("no such host: {url}"),
        _ => format!("cannot reach the server at {url}"),
    }
}

fn unauthorised(url: &str, had_token: bool) -> String {
    let what = if had_token { "does not accept this token" } else { "wants a token" };
    format!(
        "the server at {url} {what}; set WARPYARD_DATA to its data directory, or WARPYARD_TOKEN to the text of the file \
         'token' there"
    )
}

fn refused(body: &ProblemBody) -> String {
    if body.problems.is_empty() {
        return format!("{} (code: {})", crate::text::shown(&body.detail), crate::text::shown(&body.code));
    }
    render_bare(&body.problems).trim_end().trim_start_matches("error: ").to_owned()
}
