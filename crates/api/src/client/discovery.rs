//! Server discovery: by flag, then environment, then the socket in the data directory, then the machine's system-wide
//! socket, then the server that the user logged in to. On a socket the kernel authenticates both ends; only a TCP port
//! needs a token, and one with TLS the fingerprint of a CA.

use super::ClientError;
use super::known_servers::KnownServers;
use crate::private_dir::{self, AllowedOwner};
use crate::token::{Fingerprint, PersonalToken, is_personal};
use std::io;
use std::path::{Path, PathBuf};

/// The file in the data directory with the server's address.
pub const ADDRESS_FILE: &str = "address";

/// The socket in the data directory, for its owner.
pub const SOCKET_FILE: &str = "socket";

/// The file in the data directory with the token for the TCP port.
pub const TOKEN_FILE: &str = "token";

/// The file in the data directory with the fingerprint of the CA of the server's certificate.
pub const CA_FILE: &str = "ca-fingerprint";

/// The socket of a shared machine's server, for all its users.
pub const SYSTEM_SOCKET: &str = "/run/warpyard/socket";

/// A server's address and the token for it.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// Address, such as `https://gpu1:7700`, or a socket on this machine, such as `unix:/run/warpyard/socket`.
    pub url: String,
    /// Token, where there is one.
    pub token: Option<String>,
    /// Fingerprint of the CA that the certificate of a server with TLS comes from; without one it must come from a CA that
    /// this machine trusts.
    pub ca: Option<Fingerprint>,
}

impl Target {
    /// The target that a worker or a person reaches with a secret.
    pub fn with_secret(url: &str, ca: Option<Fingerprint>, secret: &str) -> Target {
        Target { url: url.to_owned(), token: Some(secret.to_owned()), ca }
    }

    /// Whether connections use TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.url.starts_with("https://")
    }

    /// Whether the address is a Unix socket.
    pub fn is_socket(&self) -> bool {
        socket_path(&self.url).is_some()
    }

    /// The error of rejected credentials.
    pub(super) fn unauthorised(&self) -> ClientError {
        ClientError::Unauthorised { url: self.url.clone(), had_token: self.token.is_some() }
    }
}

/// Leaves the token out, because debug output ends up in logs.
impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target")
            .field("url", &self.url)
            .field("token", &self.token.as_ref().map(|_| "…"))
            .field("ca", &self.ca)
            .finish()
    }
}

/// The data directory: the flag, `WARPYARD_DATA`, or the XDG state directory of this user. `env` looks up a variable.
pub fn data_dir(flag: Option<&Path>, env: impl Fn(&str) -> Option<String>) -> PathBuf {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let given = flag.map(Path::to_owned).or_else(|| set("WARPYARD_DATA").map(PathBuf::from));
    let state = || {
        let xdg = set("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
        let home = || Path::new(&set("HOME").unwrap_or_else(|| "/".to_owned())).join(".local/state");
        xdg.unwrap_or_else(home).join("warpyard")
    };
    given.unwrap_or_else(state)
}

/// Finds the server: the flag, `WARPYARD_SERVER`, the server of a personal token in `WARPYARD_TOKEN`, the socket in the data
/// directory, the machine's system-wide one, or the server that the user logged in to. For a TCP port the token is
/// `WARPYARD_TOKEN`, the one of the login, or the one in the data directory.
pub fn find_server(
    server_flag: Option<&str>,
    data_flag: Option<&Path>,
    env: impl Fn(&str) -> Option<String>,
) -> Result<Target, ClientError> {
    let set = |name: &str| env(name).filter(|value| !value.is_empty());
    let data = data_dir(data_flag, &env);
    let given = set("WARPYARD_TOKEN");
    let personal = match given.as_deref().filter(|token| is_personal(token)) {
        Some(token) => Some(token.parse::<PersonalToken>().map_err(ClientError::BadToken)?),
        None => None,
    };
    let known = || match KnownServers::path(&env) {
        Some(path) => KnownServers::read(&path),
        None => Ok(KnownServers::default()),
    };
    let named = server_flag.map(str::to_owned).or_else(|| set("WARPYARD_SERVER"));
    let url = match named.or_else(|| personal.as_ref().map(|token| token.server.clone())) {
        Some(url) => full_url(&url)?,
        None => {
            let named = data_flag.is_some() || set("WARPYARD_DATA").is_some();
            let shared =
                (!named && Path::new(SYSTEM_SOCKET).exists()).then(|| format!("unix:{SYSTEM_SOCKET}"));
            let path = data.join(ADDRESS_FILE);
            match local_server(&data)?.or(shared) {
                Some(url) => url,
                None if named => return Err(ClientError::NoAddress { path }),
                None => known()?.default.ok_or(ClientError::NoAddress { path })?,
            }
        }
    };
    if socket_path(&url).is_some() {
        return Ok(Target { url, ..Target::default() });
    }
    let ca = match set("WARPYARD_CA") {
        Some(text) => Some(text.parse().map_err(ClientError::BadFingerprint)?),
        None => None,
    };
    if let Some(PersonalToken { secret, ca: of_token, .. }) = personal {
        return Ok(Target { token: Some(secret.as_str().to_owned()), ca: ca.or(of_token), url });
    }
    if given.is_some() {
        let ca = ca.or(known()?.servers.get(&url).and_then(|server| server.ca));
        return Ok(Target { url, token: given, ca });
    }
    if let Some(server) = known()?.servers.get(&url) {
        return Ok(Target { token: Some(server.token.clone()), ca: ca.or(server.ca), url });
    }
    private_dir::check(&data, AllowedOwner::OwnOrRoot)?;
    let ca = match ca {
        // The server of a data directory on this machine is known by the certificate that lies there.
        None if url.starts_with("https://") => own_ca(&data)?,
        ca => ca,
    };
    Ok(Target { token: read_line(&data.join(TOKEN_FILE))?, ca, url })
}

/// The fingerprint of the CA of the server in a data directory.
fn own_ca(data: &Path) -> Result<Option<Fingerprint>, ClientError> {
    let line = read_line(&data.join(CA_FILE))?;
    line.map(|text| text.parse().map_err(ClientError::BadFingerprint)).transpose()
}

/// The socket of the server in a data directory, if its address is there. The address itself is not connected to:
/// once that server is dead, any process may listen on its port.
fn local_server(data: &Path) -> Result<Option<String>, ClientError> {
    private_dir::check(data, AllowedOwner::OwnOrRoot)?;
    let address = data.join(ADDRESS_FILE);
    if read_line(&address)?.is_none() {
        return Ok(None);
    }
    let socket = data.join(SOCKET_FILE);
    let socket = std::path::absolute(&socket).unwrap_or(socket);
    if !socket.exists() {
        let pid = read_line(&data.join("lock")).ok().flatten();
        return Err(ClientError::NoSocket { path: address, pid });
    }
    Ok(Some(format!("unix:{}", socket.display())))
}

/// The first line of a file; `None` if there is no file or it is empty.
fn read_line(path: &Path) -> Result<Option<String>, ClientError> {
    match std::fs::read_to_string(path) {
        Ok(text) => {
            Ok(text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(ClientError::UnreadableFile { path: path.to_owned(), source }),
    }
}

/// The address with its scheme and without a trailing slash.
pub(super) fn full_url(text: &str) -> Result<String, ClientError> {
    if let Some(path) = socket_path(text.trim()) {
        return match path.starts_with('/') {
            true => Ok(format!("unix:{path}")),
            false => Err(ClientError::BadAddress {
                url: text.to_owned(),
                fault: "the path of a socket begins with a slash",
            }),
        };
    }
    let bad = |fault| Err(ClientError::BadAddress { url: text.to_owned(), fault });
    let (scheme, rest) = text.trim().split_once("://").unwrap_or(("http", text.trim()));
    let rest = rest.trim_end_matches('/');
    match scheme {
        "http" | "https" if rest.is_empty() => bad("it is empty"),
        "http" | "https" if rest.contains(['/', '?', '#', '@', ' ']) => {
            bad("it has more than a host and a port")
        }
        "http" | "https" => Ok(format!("{scheme}://{rest}")),
        _ => bad("its scheme is neither https nor http"),
    }
}

/// The path of a socket address: `unix:PATH`, or an absolute path by itself, which can be nothing else.
pub(super) fn socket_path(url: &str) -> Option<&str> {
    if url.starts_with('/') {
        return Some(url);
    }
    url.strip_prefix("unix:").map(|path| path.strip_prefix("//").unwrap_or(path))
}

/// Whether the address is a loopback one, which no proxy is used for.
pub(super) fn is_loopback(url: &str) -> bool {
    let host = url.split_once("://").map_or(url, |(_, host)| host);
    let host = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((v6, _)) => v6,
        None => host.rsplit_once(':').map_or(host, |(host, _)| host),
    };
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env<'a>(pairs: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_flag_goes_before_the_environment_and_that_before_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().to_str().unwrap();
        std::fs::write(dir.path().join(ADDRESS_FILE), "http://127.0.0.1:7701\n").unwrap();
        std::fs::write(dir.path().join(TOKEN_FILE), "from-file\n").unwrap();
        let target = |url: &str, token: &str| Target::with_secret(url, None, token);

        let only_data = [("WARPYARD_DATA", data), ("WARPYARD_TOKEN", "from-env")];
        let said = find_server(None, None, env(&only_data)).unwrap_err().to_string();
        assert!(said.contains("has no socket beside it") && said.contains("`warpyard up`"), "{said}");
        let _listens = std::os::unix::net::UnixListener::bind(dir.path().join(SOCKET_FILE)).unwrap();
        let local = Target { url: format!("unix:{data}/{SOCKET_FILE}"), ..Target::default() };
        assert_eq!(find_server(None, None, env(&only_data)).unwrap(), local);
        assert_eq!(find_server(None, Some(dir.path()), env(&[])).unwrap(), local);
        let both = [
            ("WARPYARD_DATA", data),
            ("WARPYARD_SERVER", "http://gpu1:7700/"),
            ("WARPYARD_TOKEN", "from-env"),
        ];
        assert_eq!(find_server(None, None, env(&both)).unwrap(), target("http://gpu1:7700", "from-env"));
        assert_eq!(
            find_server(None, None, env(&both[..2])).unwrap(),
            target("http://gpu1:7700", "from-file")
        );
        assert_eq!(
            find_server(Some("gpu2:1"), None, env(&both)).unwrap(),
            target("http://gpu2:1", "from-env")
        );
    }

    #[test]
    fn a_personal_token_names_its_server_and_a_login_is_remembered() {
        use crate::client::known_servers::KnownServer;
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        let secret = crate::token::Secret::generate().unwrap();
        let ca = Some(Fingerprint::of_der(b"ca"));
        let token = PersonalToken { server: "https://gpu1:7700".into(), ca, secret: secret.clone() };
        let text = token.to_string();
        let target = Target::with_secret("https://gpu1:7700", ca, secret.as_str());
        let given = [("HOME", home), ("WARPYARD_TOKEN", &*text)];
        assert_eq!(find_server(None, None, env(&given)).unwrap(), target);
        let tunnel = find_server(Some("https://localhost:9000"), None, env(&given)).unwrap();
        assert_eq!(tunnel, Target { url: "https://localhost:9000".into(), ..target.clone() });
        let cut = [("HOME", home), ("WARPYARD_TOKEN", &text[..40])];
        assert!(matches!(find_server(None, None, env(&cut)), Err(ClientError::BadToken(_))));
        let known = KnownServers {
            default: Some(token.server.clone()),
            servers: [(token.server.clone(), KnownServer { token: secret.as_str().into(), ca })].into(),
        };
        let home_only = [("HOME", home)];
        known.write(&KnownServers::path(env(&home_only)).unwrap()).unwrap();
        if !Path::new(SYSTEM_SOCKET).exists() {
            assert_eq!(find_server(None, None, env(&home_only)).unwrap(), target);
        }
        assert_eq!(find_server(Some("https://gpu1:7700/"), None, env(&home_only)).unwrap(), target);
    }

    #[test]
    fn without_an_address_it_says_how_to_get_one() {
        let dir = tempfile::tempdir().unwrap();
        let error = find_server(None, Some(dir.path()), env(&[])).unwrap_err();
        let path = dir.path().join(ADDRESS_FILE);
        let said = format!(
            "no server is known: there is no {}; start one with `warpyard up`, or say where it is with --server",
            path.display()
        );
        assert_eq!((error.to_string(), error.exit_code()), (said, 3));
    }

    #[test]
    fn the_data_directory_is_where_the_system_keeps_state() {
        assert_eq!(
            data_dir(None, env(&[("HOME", "/home/ann")])),
            Path::new("/home/ann/.local/state/warpyard")
        );
        let xdg = [("HOME", "/home/ann"), ("XDG_STATE_HOME", "/state")];
        assert_eq!(data_dir(None, env(&xdg)), Path::new("/state/warpyard"));
        assert_eq!(data_dir(None, env(&[("WARPYARD_DATA", "/d"), ("HOME", "/h")])), Path::new("/d"));
        assert_eq!(data_dir(Some(Path::new("/flag")), env(&[("WARPYARD_DATA", "/d")])), Path::new("/flag"));
    }

    #[test]
    fn addresses_refused() {
        for wrong in ["", "http://", "https://", "ftp://gpu1", "gpu1:7700/v1", "ann@gpu1:7700", "unix:here"] {
            assert!(matches!(full_url(wrong), Err(ClientError::BadAddress { .. })), "{wrong}");
        }
    }

    #[test]
    fn a_socket_is_an_address_too() {
        for text in ["unix:/run/w/socket", "unix:///run/w/socket", " unix:/run/w/socket", "/run/w/socket"] {
            assert_eq!(full_url(text).unwrap(), "unix:/run/w/socket", "{text}");
        }
    }

    #[test]
    fn a_token_is_never_printed() {
        let target = Target::with_secret("http://gpu1:1", None, "secret");
        assert!(!format!("{target:?}").contains("secret"));
    }

    #[test]
    fn no_proxy_leads_to_this_machine() {
        for own in ["http://127.0.0.1:7700", "http://[::1]:7700", "http://localhost:7700", "http://localhost"]
        {
            assert!(is_loopback(own), "{own}");
        }
        assert!(!is_loopback("http://gpu1:7700"));
    }
}
