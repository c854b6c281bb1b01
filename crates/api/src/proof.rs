//! HMAC-SHA256 keyed by a server's token: how a server proves to a client that it knows the token before the client
//! sends it (`GET /v1/proof`), and how names only the server can compute are derived from it.

use sha2::{Digest, Sha256};

/// Block size of SHA-256 in bytes, to which HMAC pads its key.
const BLOCK: usize = 64;

/// The shortest token that a server gives proofs for. Anyone may request proofs, so that a shorter token could be found by
/// brute force.
pub const MIN_TOKEN_LENGTH: usize = 32;

/// The proof that a server knows `token`, over the client's nonce and the host and port the client connected to: a proof
/// for one address is worthless at another.
pub fn server_proof(token: &str, nonce: &str, host: &str) -> String {
    hex(&hmac(token.as_bytes(), &["warpyard server proof 1", nonce, host]))
}

/// What a server stores of a secret of 256 random bits: a name to look it up by, and a key that proves knowledge of it to
/// whoever has the secret. Both are HMACs under the secret itself, from which it cannot be found, so that reading them lets
/// nobody in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretDigest {
    /// The name, in 32 hexadecimal digits. Not secret.
    pub id: String,
    /// The key, in 64 hexadecimal digits.
    pub key: String,
}

impl SecretDigest {
    /// The digest of a secret.
    pub fn of(secret: &str) -> SecretDigest {
        let of = |purpose| hmac(secret.as_bytes(), &[purpose]);
        SecretDigest { id: hex(&of("warpyard secret id 1")[..16]), key: hex(&of("warpyard secret key 1")) }
    }
}

/// A name derived from the token: the same for the same use, and unguessable without the token.
pub fn derived_name(token: &str, uses: &[&str]) -> String {
    hex(&hmac(token.as_bytes(), &[&["warpyard derived name 1"], uses].concat())[..12])
}

/// Compares two byte strings in constant time, so that the time does not reveal where they differ.
pub fn constant_time_eq(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |d, (x, y)| d | (x ^ y)) == 0
}

/// Bytes as lowercase hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// HMAC-SHA256 (RFC 2104) over the parts, each followed by a zero byte so that parts cannot be shifted into each other.
fn hmac(key: &[u8], parts: &[&str]) -> [u8; 32] {
    let message: Vec<u8> = parts.iter().flat_map(|part| part.bytes().chain([0])).collect();
    hmac_of(key, &message)
}

fn hmac_of(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut padded = [0; BLOCK];
    match key.len() {
        0..=BLOCK => padded[..key.len()].copy_from_slice(key),
        _ => padded[..32].copy_from_slice(&Sha256::digest(key)),
    }
    let keyed = |pad: u8| Sha256::new().chain_update(padded.map(|b| b ^ pad));
    let inner = keyed(0x36).chain_update(message).finalize();
    keyed(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test cases 2 and 6 of RFC 4231: a short key, and one longer than a block.
    #[test]
    fn it_is_hmac() {
        assert_eq!(
            hex(&hmac_of(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            hex(&hmac_of(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
    }

    #[test]
    fn a_digest_tells_nothing_of_its_secret_and_its_parts_differ() {
        let (a, b) = (SecretDigest::of("wys_a"), SecretDigest::of("wys_b"));
        assert!(a.id != b.id && a.key != b.key && !a.key.contains(&a.id) && a == SecretDigest::of("wys_a"));
        assert_eq!((a.id.len(), a.key.len()), (32, 64));
    }

    #[test]
    fn a_proof_is_for_one_token_nonce_and_host() {
        let proof = server_proof("token", "nonce", "127.0.0.1:7700");
        assert_eq!(proof, server_proof("token", "nonce", "127.0.0.1:7700"));
        for other in [
            server_proof("other", "nonce", "127.0.0.1:7700"),
            server_proof("token", "other", "127.0.0.1:7700"),
            server_proof("token", "nonce", "127.0.0.1:7701"),
            server_proof("token", "nonce1", "27.0.0.1:7700"),
        ] {
            assert_ne!(proof, other);
        }
    }
}
