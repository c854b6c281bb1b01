//! Tokens as text: join tokens, by which a worker finds, verifies and joins a server, and personal tokens, by which a person
//! does the same from another machine. Each carries the server's address, the fingerprint of its CA and a secret of 256
//! random bits. Only the secret is ever sent; servers store nothing but its [`SecretDigest`].

use crate::proof::{SecretDigest, hex};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::str::FromStr;

/// The prefix of a secret, which tells it from the token in a server's data directory.
const SECRET: &str = "wys_";

/// The prefix of a join token, with the version of its encoding.
const JOIN: &str = "wyj1_";

/// The prefix of a personal token, with the version of its encoding.
const PERSONAL: &str = "wyp1_";

/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;

/// Bytes of the checksum at the end of a token, which finds one that was cut short or mistyped.
const CHECKSUM: usize = 4;

/// The longest text of a token, above any address.
const LONGEST: usize = 1024;

/// Why a text is not a token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// It is a token of another kind.
    #[error("this is {found}, not {expected}")]
    Kind {
        /// The kind that was expected.
        expected: &'static str,
        /// The kind of the text.
        found: &'static str,
    },
    /// It is no token at all.
    #[error("this is not {expected}: one begins with {prefix}")]
    Prefix {
        /// The kind that was expected.
        expected: &'static str,
        /// The prefix of that kind.
        prefix: &'static str,
    },
    /// It was cut short or mistyped.
    #[error("the token is incomplete or has a typing error; copy all of it")]
    Damaged,
    /// It is a token of a later version of this program.
    #[error("the token was made by a later version of warpyard; update this program")]
    Newer,
}

/// A SHA-256 fingerprint of a certificate, written as `sha256:` and 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of a certificate in DER.
    pub fn of_der(der: &[u8]) -> Fingerprint {
        Fingerprint(Sha256::digest(der).into())
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", hex(&self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a fingerprint; write sha256: and 64 hexadecimal digits, as `warpyard tls` prints it")]
pub struct FingerprintError(String);

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Also accepts the digits alone, and colons between them as other programs print them.
    fn from_str(text: &str) -> Result<Fingerprint, FingerprintError> {
        let wrong = || FingerprintError(text.to_owned());
        let digits = text.trim();
        let digits = digits.strip_prefix("sha256:").or(digits.strip_prefix("SHA256:")).unwrap_or(digits);
        let digits: Vec<u8> = digits.bytes().filter(|byte| *byte != b':').collect();
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = str::from_utf8(pair).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong())?;
        }
        Ok(Fingerprint(bytes))
    }
}

impl serde::Serialize for Fingerprint {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Fingerprint {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// A secret of 256 random bits, as it is sent: of a join token, a personal token, or a worker's key. Debug output leaves it
/// out, because that ends up in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new one, from the kernel's random numbers.
    pub fn generate() -> io::Result<Secret> {
        let mut bytes = [0; SECRET_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Secret::of(&bytes))
    }

    fn of(bytes: &[u8]) -> Secret {
        Secret(format!("{SECRET}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    fn bytes(&self) -> Vec<u8> {
        BASE64_URL_SAFE_NO_PAD.decode(&self.0[SECRET.len()..]).expect("checked when it was made")
    }

    /// The text that is sent as `Authorization: Bearer`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What a server stores of it.
    pub fn digest(&self) -> SecretDigest {
        SecretDigest::of(&self.0)
    }
}

impl FromStr for Secret {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Secret, TokenError> {
        let text = text.trim();
        let encoded = text
            .strip_prefix(SECRET)
            .ok_or(TokenError::Prefix { expected: "a secret of warpyard", prefix: SECRET })?;
        match BASE64_URL_SAFE_NO_PAD.decode(encoded) {
            Ok(bytes) if bytes.len() == SECRET_BYTES => Ok(Secret(text.to_owned())),
            _ => Err(TokenError::Damaged),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// A join token: what `warpyard worker --join` is given.
///
/// ```
/// use warpyard_api::token::{JoinToken, Secret};
/// let secret = Secret::generate()?;
/// let token = JoinToken { server: "https://gpu1:7700".into(), ca: None, secret };
/// assert_eq!(token.to_string().parse(), Ok(token));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinToken {
    /// The server's address, such as `https://gpu1:7700`.
    pub server: String,
    /// The fingerprint of the CA that the server's certificate must come from; without one, the server's certificate is
    /// checked against the machine's own trusted CAs.
    pub ca: Option<Fingerprint>,
    /// The secret that is redeemed.
    pub secret: Secret,
}

/// A personal token: what a person logs in with from another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonalToken {
    /// The server's address, such as `https://gpu1:7700`.
    pub server: String,
    /// The fingerprint of its CA, as in a [`JoinToken`].
    pub ca: Option<Fingerprint>,
    /// The secret, sent as a bearer token.
    pub secret: Secret,
}

impl fmt::Display for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(JOIN, &self.server, self.ca.as_ref(), &self.secret))
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<JoinToken, TokenError> {
        let (server, ca, secret) = decode(JOIN, text)?;
        Ok(JoinToken { server, ca, secret })
    }
}

impl fmt::Display for PersonalToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&encode(PERSONAL, &self.server, self.ca.as_ref(), &self.secret))
    }
}

impl FromStr for PersonalToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<PersonalToken, TokenError> {
        let (server, ca, secret) = decode(PERSONAL, text)?;
        Ok(PersonalToken { server, ca, secret })
    }
}

/// What a prefix stands for.
fn kind(prefix: &str) -> &'static str {
    match prefix {
        JOIN => "a join token",
        PERSONAL => "a personal token",
        _ => "a secret of warpyard",
    }
}

/// Whether a text begins as a personal token does.
pub fn is_personal(text: &str) -> bool {
    text.trim().starts_with(PERSONAL)
}

/// The bytes: the secret, whether a fingerprint follows, the fingerprint, the address, and a checksum of all before it.
fn encode(prefix: &str, server: &str, ca: Option<&Fingerprint>, secret: &Secret) -> String {
    let mut bytes = secret.bytes();
    bytes.push(u8::from(ca.is_some()));
    bytes.extend(ca.iter().flat_map(|ca| ca.0));
    bytes.extend(server.bytes());
    let checksum = Sha256::digest(&bytes);
    bytes.extend(&checksum[..CHECKSUM]);
    format!("{prefix}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn decode(prefix: &'static str, text: &str) -> Result<(String, Option<Fingerprint>, Secret), TokenError> {
    let text = text.trim();
    let Some(encoded) = text.strip_prefix(prefix) else {
        return Err(of_another_kind(prefix, text));
    };
    if encoded.len() > LONGEST {
        return Err(TokenError::Damaged);
    }
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(encoded).map_err(|_| TokenError::Damaged)?;
    let (bytes, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(TokenError::Damaged)?;
    if Sha256::digest(bytes)[..CHECKSUM] != checksum[..] {
        return Err(TokenError::Damaged);
    }
    let (secret, rest) = bytes.split_first_chunk::<SECRET_BYTES>().ok_or(TokenError::Damaged)?;
    let (ca, server) = match rest.split_first() {
        Some((0, server)) => (None, server),
        Some((1, rest)) => {
            let (ca, server) = rest.split_first_chunk::<32>().ok_or(TokenError::Damaged)?;
            (Some(Fingerprint(*ca)), server)
        }
        Some(_) => return Err(TokenError::Newer),
        None => return Err(TokenError::Damaged),
    };
    let server = str::from_utf8(server).map_err(|_| TokenError::Damaged)?;
    Ok((server.to_owned(), ca, Secret::of(secret)))
}

/// The error of a text with another prefix than that of the expected kind.
fn of_another_kind(expected: &'static str, text: &str) -> TokenError {
    let other = [JOIN, PERSONAL, SECRET].into_iter().find(|prefix| text.starts_with(prefix));
    // The prefixes but for the version.
    let later = ["wyj", "wyp"].iter().any(|stem| expected.starts_with(stem) && text.starts_with(stem));
    match other {
        Some(found) => TokenError::Kind { expected: kind(expected), found: kind(found) },
        None if later => TokenError::Newer,
        None => TokenError::Prefix { expected: kind(expected), prefix: expected },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(ca: Option<Fingerprint>) -> JoinToken {
        JoinToken { server: "https://[fd00::1]:7700".into(), ca, secret: Secret::of(&[7; SECRET_BYTES]) }
    }

    #[test]
    fn a_token_is_read_back_and_is_short_enough_to_copy() {
        for ca in [None, Some(Fingerprint::of_der(b"a certificate"))] {
            let token = token(ca);
            let text = token.to_string();
            assert_eq!(format!(" {text}\n").parse(), Ok(token));
            assert!(
                text.len() < 140 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
            );
        }
    }

    #[test]
    fn what_is_wrong_with_a_text_is_said() {
        let text = token(None).to_string();
        assert_eq!(text[..text.len() - 3].parse::<JoinToken>(), Err(TokenError::Damaged));
        let changed = text.replace('B', "C");
        assert_eq!(changed.parse::<JoinToken>(), Err(TokenError::Damaged));
        let other = "this is a join token, not a personal token";
        assert_eq!(text.parse::<PersonalToken>().unwrap_err().to_string(), other);
        assert_eq!("wyj2_AAAA".parse::<JoinToken>(), Err(TokenError::Newer));
        let none = "this is not a join token: one begins with wyj1_";
        assert_eq!("hunter2".parse::<JoinToken>().unwrap_err().to_string(), none);
        assert_eq!(format!("wyj1_{}", "A".repeat(5000)).parse::<JoinToken>(), Err(TokenError::Damaged));
    }

    #[test]
    fn secrets_are_random_and_not_printed() {
        let (a, b) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.as_str().parse(), Ok(a.clone()));
        assert!(!format!("{:?}", JoinToken { secret: a.clone(), ..token(None) }).contains(a.as_str()));
        assert!("wys_short".parse::<Secret>().is_err());
    }

    #[test]
    fn a_fingerprint_is_read_as_other_programs_write_it() {
        let print = Fingerprint::of_der(b"a certificate");
        let text = print.to_string();
        let digits = text.strip_prefix("sha256:").unwrap();
        let pairs: Vec<_> = digits.as_bytes().chunks(2).map(|p| str::from_utf8(p).unwrap()).collect();
        for written in [text.clone(), digits.to_uppercase(), pairs.join(":").to_uppercase()] {
            assert_eq!(written.parse(), Ok(print), "{written}");
        }
        for wrong in ["", "sha256:", &digits[1..], "md5:00", &text.replace('a', "x")] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
    }
}
