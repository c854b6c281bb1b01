//! Requests: small ones that would cost much.
