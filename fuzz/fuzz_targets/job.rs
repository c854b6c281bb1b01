//! Job documents: in TOML, in JSON, and as a JSON value. One that is accepted is accepted again as the server writes it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warpyard_api::job::{Format, ReadOptions, read, read_value};

fuzz_target!(|data: &[u8]| {
    let Some(text) = warpyard_fuzz::text(data) else { return };
    let options = ReadOptions { default_name: None, accept_user: true };
    for format in [Format::Toml, Format::Json] {
        if let Ok(checked) = read(text, format, options) {
            let written = serde_json::to_value(&checked.doc).expect("a document is JSON");
            let again = read_value(&written, options).unwrap_or_else(|e| panic!("{e:?}: {written}"));
            assert_eq!(again.doc, checked.doc);
        }
    }
    if let Ok(value) = serde_json::from_str(text) {
        let _refused = read_value(&value, options);
    }
});
