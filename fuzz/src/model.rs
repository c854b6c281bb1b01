//! Model files: what the targets of their readers share.

use std::io::{Cursor, Write};
use warpyard_estimate::{Method, Mode, Optimizer, Request, Shapes, estimate, read};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Reads a model file with several batches, and estimates what could be read.
pub fn read_and_estimate(file: &[u8]) {
    for batch in [None, Some(2), Some(u64::MAX)] {
        let Ok(model) = read(&mut Cursor::new(file), &Shapes { batch, inputs: Vec::new() }) else { continue };
        for (mode, method) in [(Mode::Infer, Method::FloatCount), (Mode::Train, Method::Replay)] {
            let request = Request { method, ..Request::new(mode, Optimizer::Adam) };
            let estimate = estimate(&model, &request);
            assert!(estimate.upper_bytes >= estimate.context_bytes, "the bound is less than a context");
        }
    }
}

/// An archive as `torch.export.save` writes it, of a graph and its list of weights.
pub fn archive(graph: &str, weights: Option<&str>) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    let entries = [("m/models/model.json", Some(graph)), ("m/data/weights/model_weights_config.json", weights)];
    for (name, text) in entries {
        let Some(text) = text else { continue };
        zip.start_file(name, stored).expect("an entry");
        zip.write_all(text.as_bytes()).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
}
