//! Errors of the client.

use super::discovery::Target;
use super::stream::VerificationError;
use crate::private_dir::PrivateDirError;
use crate::problem::render_bare;
use crate::token::{FingerprintError, TokenError};
use crate::wire::ProblemBody;
use std::io;
use std::path::PathBuf;

/// Why a call did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No server answers at the address.
    #[error("{}", unreachable(url, source))]
    Unreachable {
        /// The server's address.
        url: String,
        /// The network error.
        source: Box<ureq::Error>,
    },
    /// No server was named, and the data directory has the address of none.
    #[error(
        "no server is known: there is no {}; start one with `warpyard up`, or say where it is with --server",
        path.display()
    )]
    NoAddress {
        /// The file that would have its address.
        path: PathBuf,
    },
    /// The file with the server's address or token cannot be read.
    #[error("cannot read {}", path.display())]
    UnreadableFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The data directory has a server's address, but no socket.
    #[error(
        "the server that left {} has no socket beside it: it is older than this program, or was killed; end it{} if it \
         still runs, and start `warpyard up`",
        path.display(), pid.as_deref().map(|pid| format!(" (`kill {pid}`)")).unwrap_or_default()
    )]
    NoSocket {
        /// The file with its address.
        path: PathBuf,
        /// The process that last held the data directory.
        pid: Option<String>,
    },
    /// The data directory is not private, so that another user could have prepared it.
    #[error(transparent)]
    NotPrivate(#[from] PrivateDirError),
    /// The process at the address could not be verified to be the server; it was sent nothing.
    #[error("{}", untrusted(url, source))]
    Untrusted {
        /// The address.
        url: String,
        /// The failed check.
        source: VerificationError,
    },
    /// The personal token is damaged, or of another kind.
    #[error("WARPYARD_TOKEN cannot be used: {0}")]
    BadToken(#[source] TokenError),
    /// The fingerprint of a CA cannot be parsed.
    #[error(transparent)]
    BadFingerprint(FingerprintError),
    /// Others can read the file with the user's tokens.
    #[error("{} holds your tokens and can be read by others (mode {mode:o}); run `chmod 600` on it, and `warpyard token revoke` \
             the tokens if others may have read them", path.display())]
    ExposedFile {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The text is not the address of a server.
    #[error("'{url}' is not the address of a server: {fault}; write https://host:port")]
    BadAddress {
        /// The text.
        url: String,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The server did not accept the caller's credentials.
    #[error("{}", unauthorised(url, *had_token))]
    Unauthorised {
        /// The server's address.
        url: String,
        /// Whether a token was sent at all.
        had_token: bool,
    },
    /// The server refused the request.
    #[error("{}", refused(.0))]
    Refused(Box<ProblemBody>),
    /// The server's response could not be parsed, as that of another version might.
    #[error("the server at {url} answered {status} with something unexpected")]
    Unreadable {
        /// The server's address.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The parse error.
        source: Box<ureq::Error>,
    },
}

impl ClientError {
    /// The exit code of a command that fails with it: 2 if the request was wrong, 3 if no server could accept it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(body) if body.status < 500 => 2,
            Self::Unauthorised { .. } | Self::BadAddress { .. } | Self::NotPrivate(_) => 2,
            Self::BadToken(_) | Self::BadFingerprint(_) | Self::ExposedFile { .. } => 2,
            Self::Untrusted {
                source:
                    VerificationError::WrongProof
                    | VerificationError::UnknownToken
                    | VerificationError::Fingerprint { .. }
                    | VerificationError::NoKnownCa { .. }
                    | VerificationError::NoTls
                    | VerificationError::SpeaksTls
                    | VerificationError::Host { .. },
                ..
            } => 2,
            Self::Unreachable { .. }
            | Self::NoAddress { .. }
            | Self::NoSocket { .. }
            | Self::Untrusted { .. }
            | Self::UnreadableFile { .. }
            | Self::Refused(_)
            | Self::Unreadable { .. } => 3,
        }
    }
}

impl ClientError {
    /// The error of a failed connection.
    pub(super) fn of_connection(target: &Target, error: ureq::Error) -> ClientError {
        let url = target.url.clone();
        match error {
            ureq::Error::Io(e) if e.get_ref().is_some_and(|inner| inner.is::<VerificationError>()) => match e
                .into_inner()
                .map(|inner| inner.downcast::<VerificationError>())
            {
                Some(Ok(source))
                    if matches!(*source, VerificationError::NoToken | VerificationError::UnknownToken) =>
                {
                    target.unauthorised()
                }
                Some(Ok(source)) => ClientError::Untrusted { url, source: *source },
                _ => unreachable!("it was looked at"),
            },
            source => ClientError::Unreachable { url, source: Box::new(source) },
        }
    }
}

fn untrusted(url: &str, why: &VerificationError) -> String {
    match why {
        VerificationError::Peer { .. } | VerificationError::NoToken | VerificationError::UnknownToken => {
            format!(
                "{url} is not trusted: {why}; start your own server with `warpyard up`, or ask that user what they run there"
            )
        }
        VerificationError::Fingerprint { .. } => format!(
            "{url} is not trusted: {why}. Nothing was sent. Either the server was set up anew, and you need another token, or \
             another machine answers in its place"
        ),
        VerificationError::NoKnownCa { found, .. } => format!(
            "{url} is not trusted: {why}. Nothing was sent. Compare {found} with what `warpyard tls` prints on the server; \
             if they are the same, give it with --ca to `warpyard login`, or as WARPYARD_CA"
        ),
        VerificationError::NoTls => {
            format!("{url} is not trusted: {why}; write http:// if that is meant. Nothing was sent")
        }
        VerificationError::SpeaksTls => {
            format!("the token was not sent to {url}: {why}; write https:// in its address")
        }
        VerificationError::Tls(_) => format!("{url} is not trusted: {why}. Nothing was sent"),
        VerificationError::NoProof { .. } => format!(
            "the token was not sent to {url}: {why}. Either it is a server older than this program, to be updated, or \
             another program listens there"
        ),
        VerificationError::WrongProof => format!(
            "the token was not sent to {url}: {why}. Set WARPYARD_TOKEN to the text of the file 'token' in the data directory \
             of that server; if it is right, another program listens there"
        ),
        VerificationError::Host { host } => format!(
            "the token was not sent to {url}: the server there {}. Where a tunnel or proxy leads to it, put hosts = \
             [\"{host}\"] into its configuration",
            why.to_string().trim_start_matches("it ")
        ),
    }
}

fn unreachable(url: &str, source: &ureq::Error) -> String {
    match source {
        ureq::Error::Io(e)
            if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) =>
        {
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
         'token' there; or make a personal token with `warpyard token create` on its machine, and log in with it"
    )
}

fn refused(body: &ProblemBody) -> String {
    if body.problems.is_empty() {
        return format!(
            "{} (code: {})",
            crate::text::escape_controls(&body.detail),
            crate::text::escape_controls(&body.code)
        );
    }
    render_bare(&body.problems).trim_end().trim_start_matches("error: ").to_owned()
}
