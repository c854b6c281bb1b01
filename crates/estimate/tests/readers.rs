//! Readers against small files made here: what is read, and that damaged, absurd or hostile files end in a clear error.

use std::io::{Cursor, Write};
use warpyard_estimate::graph::Role;
use warpyard_estimate::{
    Estimate, Format, Graph, Mode, Model, Optimizer, ReadError, Request, Shapes, Weights, estimate, read,
};

fn shapes(batch: u64) -> Shapes {
    Shapes { batch: Some(batch), inputs: vec![] }
}

fn graph(bytes: &[u8], shapes: &Shapes) -> Graph {
    match read(&mut Cursor::new(bytes), shapes) {
        Ok(Model::Graph(graph)) => graph,
        other => panic!("{other:?}"),
    }
}

fn weights(bytes: &[u8]) -> Weights {
    match read(&mut Cursor::new(bytes), &Shapes::default()) {
        Ok(Model::Weights(weights)) => weights,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn refused(bytes: &[u8], part: &str) {
    refused_with(bytes, &shapes(2), part);
}

#[track_caller]
fn refused_with(bytes: &[u8], shapes: &Shapes, part: &str) {
    let error = read(&mut Cursor::new(bytes), shapes).expect_err("it is no model");
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(error) = cause {
        said = format!("{said}: {error}");
        cause = error.source();
    }
    assert!(said.contains(part), "{said}");
}

fn estimated(graph: Graph) -> Estimate {
    estimate(&Model::Graph(graph), &Request::new(Mode::Infer, Optimizer::Adam))
}

// torch.export archives

fn archive(entries: &[(&str, &str)]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let stored = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, text) in entries {
        zip.start_file(*name, stored).expect("an entry");
        zip.write_all(text.as_bytes()).expect("its content");
    }
    zip.finish().expect("an archive").into_inner()
}

/// A linear layer of 8 to 4 and a ReLU, with the nodes and sizes that a test wants to have otherwise.
fn program(nodes: &str, size: &str) -> String {
    let tensor = |name: &str, sizes: &str| {
        format!(
            r#""{name}": {{"dtype": 7, "sizes": [{sizes}], "strides": [{{"as_int": 1}}, {{"as_int": 1}}]}}"#
        )
    };
    let (batch, eight, four) = (size, r#"{"as_int": 8}"#, r#"{"as_int": 4}"#);
    let tensors = [
        tensor("p_weight", &format!("{four}, {eight}")),
        tensor("x", &format!("{batch}, {eight}")),
        tensor("linear", &format!("{batch}, {four}")),
        tensor("relu", &format!("{batch}, {four}")),
    ];
    format!(
        r#"{{"graph_module": {{"graph": {{"inputs": [{{"as_tensor": {{"name": "p_weight"}}}}, {{"as_tensor": {{"name": "x"}}}}],
        "outputs": [{{"as_tensor": {{"name": "relu"}}}}], "nodes": [{nodes}], "tensor_values": {{{}}}, "sym_int_values": {{}}}},
        "signature": {{"input_specs": [
            {{"parameter": {{"arg": {{"name": "p_weight"}}, "parameter_name": "weight"}}}},
            {{"user_input": {{"arg": {{"as_tensor": {{"name": "x"}}}}}}}}]}}}},
        "range_constraints": {{"s77": {{"min_val": 2, "max_val": 4096}}}}, "schema_version": {{"major": 8}}}}"#,
        tensors.join(", ")
    )
}

const BATCH: &str =
    r#"{"as_expr": {"expr_str": "Symbol('s77', positive=True, integer=True)", "hint": {"as_int": 2}}}"#;

fn node(target: &str, inputs: &[(&str, &str)], output: &str) -> String {
    let inputs = inputs.iter().map(|(name, of)| {
        format!(r#"{{"name": "{name}", "arg": {{"as_tensor": {{"name": "{of}"}}}}, "kind": 1}}"#)
    });
    let inputs = inputs.collect::<Vec<_>>().join(", ");
    format!(
        r#"{{"target": "torch.ops.aten.{target}", "inputs": [{inputs}], "outputs": [{{"as_tensor": {{"name": "{output}"}}}}],
        "metadata": {{"stack_trace": "…"}}}}"#
    )
}

fn two_layers() -> [String; 2] {
    let linear = node("linear.default", &[("input", "x"), ("weight", "p_weight")], "linear");
    [linear, node("relu.default", &[("self", "linear")], "relu")]
}

fn exported(json: &str) -> Vec<u8> {
    archive(&[("m/models/model.json", json), ("m/data/weights/weight_0", "not read")])
}

#[test]
fn an_archive_is_read_with_its_batch_filled_in() {
    let file = exported(&program(&two_layers().join(", "), BATCH));
    let read = graph(&file, &shapes(32));
    assert_eq!((read.format, read.parameters()), (Format::Pt2, 32));
    let input = read.of_role(Role::Input).next().expect("an input");
    assert_eq!(read.tensor(input).shape, [32, 8]);
    let estimate = estimated(read);
    assert_eq!((estimate.macs, estimate.operators), (32 * 8 * 4, 2));
    assert!(estimate.unknown_operators.is_empty());
}

#[test]
fn an_archive_says_what_batches_it_takes() {
    let file = exported(&program(&two_layers().join(", "), BATCH));
    let said = |shapes: &Shapes| read(&mut Cursor::new(&file), shapes).unwrap_err().to_string();
    assert!(said(&Shapes::default()).contains("--batch"), "{}", said(&Shapes::default()));
    assert!(said(&shapes(5000)).contains("at most 4096"));
    let fixed = exported(&program(&two_layers().join(", "), r#"{"as_int": 2}"#).replace("s77", "s1"));
    let error = read(&mut Cursor::new(&fixed), &shapes(32)).unwrap_err();
    assert!(error.to_string().contains("a batch of 2"), "{error}");
}

#[test]
fn an_unknown_operator_is_reported_and_bounded() {
    let nodes = [
        node("linear.default", &[("input", "x"), ("weight", "p_weight")], "linear"),
        node("frobnicate.default", &[("self", "linear")], "relu"),
    ];
    let known = estimated(graph(&exported(&program(&two_layers().join(", "), BATCH)), &shapes(4000)));
    let unknown = estimated(graph(&exported(&program(&nodes.join(", "), BATCH)), &shapes(4000)));
    assert_eq!(unknown.unknown_operators, ["frobnicate"]);
    assert!(unknown.training_peak_bytes >= known.training_peak_bytes);
}

#[test]
fn damaged_archives_are_refused() {
    let whole = exported(&program(&two_layers().join(", "), BATCH));
    for cut in [whole.len() - 1, whole.len() / 2, 40] {
        refused(&whole[..cut], "the archive is damaged");
    }
    refused(&exported("{\"graph_module\": 3}"), "models/model.json");
    refused(&exported(&program("", BATCH)), "'relu' is used before it is computed");
    let [linear, relu] = two_layers();
    refused(
        &exported(&program(&format!("{relu}, {linear}"), BATCH)),
        "'linear' is used before it is computed",
    );
    refused(&exported(&program(&format!("{linear}, {linear}, {relu}"), BATCH)), "computed twice");
    for (size, part) in [("9223372036854775807", "tensor 'x' is larger"), ("-4", "negative size")] {
        let file = exported(&program(&two_layers().join(", "), &format!(r#"{{"as_int": {size}}}"#)));
        refused_with(&file, &Shapes::default(), part);
    }
    let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    let deep = format!(r#"{{"as_expr": {{"expr_str": "{deep}", "hint": null}}}}"#);
    refused_with(
        &exported(&program(&two_layers().join(", "), &deep)),
        &Shapes::default(),
        "is not understood",
    );
    refused(&archive(&[("m/data.pkl", "x")]), "torch.save");
    refused(&archive(&[("readme", "x")]), "not an archive of torch.export.save");
}

#[test]
fn an_archive_that_claims_to_be_compressed_is_refused() {
    let mut bomb = exported(&program(&two_layers().join(", "), BATCH));
    // Compression method 8 in both headers of every entry: a few bytes could then stand for gigabytes.
    for (magic, at) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
        let starts: Vec<_> = (0..bomb.len() - 4).filter(|start| &bomb[*start..*start + 4] == magic).collect();
        for start in starts {
            bomb[start + at] = 8;
        }
    }
    refused(&bomb, "the archive is compressed");
}

// safetensors

fn safetensors(header: &str, data: usize) -> Vec<u8> {
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.resize(file.len() + data, 0);
    file
}

#[test]
fn safetensors_have_their_weights_counted() {
    let header = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "F16", "shape": [10, 2], "data_offsets": [0, 40]},
        "b": {"dtype": "F32", "shape": [3], "data_offsets": [40, 52]}}"#;
    let read = weights(&safetensors(header, 52));
    assert_eq!((read.format, read.parameters, read.bytes), (Format::Safetensors, 23, 52));
    assert_eq!(read.largest[0], ("a".to_owned(), 40));
}

#[test]
fn damaged_safetensors_are_refused() {
    let entry = |shape: &str, end: u64| {
        format!(r#"{{"a": {{"dtype": "F32", "shape": {shape}, "data_offsets": [0, {end}]}}}}"#)
    };
    refused(&safetensors(&entry("[3]", 12), 4), "cut short");
    refused(&safetensors(&entry("[4]", 12), 12), "another size than its shape");
    refused(&safetensors(&entry("[4294967296, 4294967296]", 12), 12), "larger than any");
    refused(&safetensors("{\"a\": 3}", 0), "no tensor");
    refused(&safetensors("{\"a\": ", 0), "no JSON object");
    let mut absurd = safetensors("{}", 0);
    absurd[..8].copy_from_slice(&(1u64 << 60).to_le_bytes());
    refused(&absurd, "the header is larger");
    let mut beyond = safetensors("{}", 0);
    beyond[..8].copy_from_slice(&5000u64.to_le_bytes());
    refused(&beyond, "5000 bytes");
}

// GGUF

/// A GGUF file with metadata numbers, one matrix, and no weights in it yet.
fn gguf(numbers: &[(&str, u32)], quantisation: u32, data: usize) -> Vec<u8> {
    let mut file = b"GGUF".to_vec();
    let text = |file: &mut Vec<u8>, text: &str| {
        file.extend((text.len() as u64).to_le_bytes());
        file.extend(text.as_bytes());
    };
    file.extend(3u32.to_le_bytes());
    file.extend(1u64.to_le_bytes());
    file.extend((numbers.len() as u64 + 1).to_le_bytes());
    text(&mut file, "general.architecture");
    file.extend(8u32.to_le_bytes());
    text(&mut file, "llama");
    for (key, number) in numbers {
        text(&mut file, key);
        file.extend(4u32.to_le_bytes());
        file.extend(number.to_le_bytes());
    }
    text(&mut file, "token_embd.weight");
    file.extend(2u32.to_le_bytes());
    file.extend(256u64.to_le_bytes());
    file.extend(32u64.to_le_bytes());
    file.extend(quantisation.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.resize(file.len() + data, 0);
    file
}

const LLAMA: [(&str, u32); 5] = [
    ("llama.block_count", 32),
    ("llama.embedding_length", 4096),
    ("llama.attention.head_count", 32),
    ("llama.attention.head_count_kv", 8),
    ("llama.context_length", 8192),
];

#[test]
fn gguf_weights_are_exact_and_the_cache_follows_from_the_architecture() {
    let read = weights(&gguf(&LLAMA, 12, 32 * 144));
    assert_eq!((read.format, read.parameters, read.bytes), (Format::Gguf, 8192, 32 * 144));
    let transformer = read.transformer.as_ref().expect("it is described");
    // Keys and values, 32 layers, 8 heads of 128, two bytes each: 128 KiB a token.
    assert_eq!(transformer.kv_cache_bytes(8192), 8192 * 128 * 1024);
    assert_eq!((transformer.context, transformer.vocabulary), (8192, 32));
}

#[test]
fn damaged_gguf_files_are_refused() {
    let whole = gguf(&LLAMA, 12, 32 * 144);
    refused(&whole[..whole.len() - 4000], "cut short");
    refused(&whole[..60], "in the middle of its header");
    refused(&gguf(&LLAMA, 999, 0), "unknown quantisation 999");
    let mut absurd = whole.clone();
    absurd[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
    refused(&absurd, "larger than any");
    let mut text = whole;
    text[24..32].copy_from_slice(&(1u64 << 40).to_le_bytes());
    refused(&text, "a string is larger");
}

// ONNX

/// A protocol-buffer message under construction.
#[derive(Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn int(mut self, field: u64, value: i64) -> Self {
        self.varint(field << 3);
        self.varint(value as u64);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: Message) -> Self {
        self.bytes(field, &message.0)
    }
}

fn value_info(name: &str, sizes: &[i64]) -> Message {
    let dimension = |size: &i64| match size {
        -1 => Message::default().text(2, "batch"),
        size => Message::default().int(1, *size),
    };
    let shape = sizes.iter().fold(Message::default(), |shape, size| shape.message(1, dimension(size)));
    let tensor = Message::default().int(1, 1).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

fn onnx_node(op: &str, inputs: &[&str], output: &str, ints: &[(&str, &[i64])]) -> Message {
    let node =
        inputs.iter().fold(Message::default(), |node, input| node.text(1, input)).text(2, output).text(4, op);
    ints.iter().fold(node, |node, (name, values)| {
        let attribute =
            values.iter().fold(Message::default().text(1, name), |attribute, value| attribute.int(8, *value));
        node.message(5, attribute)
    })
}

fn initializer(name: &str, sizes: &[i64], kind: i64, raw: &[u8]) -> Message {
    sizes
        .iter()
        .fold(Message::default(), |tensor, size| tensor.int(1, *size))
        .int(2, kind)
        .text(8, name)
        .bytes(9, raw)
}

/// Convolution, ReLU, global pooling, a reshape whose shape is a weight, and a last operator.
fn convolutional(last: Message) -> Vec<u8> {
    let shape: Vec<u8> = [0i64, -1].iter().flat_map(|size| size.to_le_bytes()).collect();
    let nodes = [
        onnx_node(
            "Conv",
            &["x", "w"],
            "conv",
            &[("kernel_shape", &[3, 3]), ("strides", &[2, 2]), ("pads", &[1, 1, 1, 1])],
        ),
        onnx_node("Relu", &["conv"], "relu", &[]),
        onnx_node("GlobalAveragePool", &["relu"], "pool", &[]),
        onnx_node("Reshape", &["pool", "shape"], "flat", &[]),
        last,
    ];
    let graph = nodes.into_iter().fold(Message::default(), |graph, node| graph.message(1, node));
    let graph = graph
        .message(5, initializer("w", &[16, 3, 3, 3], 1, &[0; 16 * 27 * 4]))
        .message(5, initializer("shape", &[2], 7, &shape))
        .message(5, initializer("fc", &[16, 10], 1, &[0; 640]))
        .message(11, value_info("x", &[-1, 3, 224, 224]))
        .message(12, value_info("y", &[-1, 10]));
    Message::default().int(1, 8).message(7, graph).0
}

#[test]
fn an_onnx_model_has_its_shapes_inferred() {
    let file = convolutional(onnx_node("MatMul", &["flat", "fc"], "y", &[]));
    let read = graph(&file, &shapes(4));
    assert_eq!((read.format, read.parameters()), (Format::Onnx, 16 * 27 + 160));
    let shape =
        |name: &str| &read.tensors.iter().find(|tensor| tensor.name == name).expect("it is there").shape;
    assert_eq!(shape("conv"), &[4, 16, 112, 112]);
    assert_eq!(shape("flat"), &[4, 16]);
    assert_eq!(shape("y"), &[4, 10]);
    let estimate = estimated(read);
    assert_eq!(estimate.macs, 4 * 16 * 112 * 112 * 27 + 4 * 10 * 16);
    assert!(estimate.unknown_operators.is_empty(), "{:?}", estimate.unknown_operators);
    let given = Shapes { batch: None, inputs: vec![vec![1, 3, 32, 32]] };
    assert_eq!(
        graph(&file, &given).tensors.iter().find(|t| t.name == "conv").map(|t| t.shape.clone()),
        Some(vec![1, 16, 16, 16])
    );
}

#[test]
fn an_unknown_onnx_operator_is_reported_and_bounded() {
    let read = graph(&convolutional(onnx_node("Frobnicate", &["flat", "fc"], "y", &[])), &shapes(4));
    let result = read.tensors.iter().find(|tensor| tensor.name == "y").expect("it is there");
    assert_eq!(result.bytes(), 640, "as large as its largest operand");
    assert_eq!(estimated(read).unknown_operators, ["onnx.Frobnicate"]);
}

#[test]
fn damaged_onnx_models_are_refused() {
    let matmul = || onnx_node("MatMul", &["flat", "fc"], "y", &[]);
    let whole = convolutional(matmul());
    for cut in [3, 20, whole.len() / 2, whole.len() - 1] {
        refused(&whole[..cut], "damaged");
    }
    refused(&convolutional(onnx_node("MatMul", &["y", "fc"], "y", &[])), "'y' is used before it is computed");
    refused(&convolutional(onnx_node("MatMul", &["x", "fc"], "y", &[])), "multiplies");
    refused(&convolutional(onnx_node("Relu", &["flat"], "conv", &[])), "computed twice");
    let huge = Shapes { batch: Some(u64::MAX), inputs: vec![] };
    assert!(matches!(read(&mut Cursor::new(&whole), &huge), Err(ReadError::TooLarge { .. })));
    let open = read(&mut Cursor::new(&whole), &Shapes::default()).unwrap_err().to_string();
    assert!(open.contains("'batch'") && open.contains("--batch"), "{open}");
}

#[test]
fn other_files_are_told_apart() {
    refused(b"", "not a torch.export archive");
    refused(b"#!/bin/sh\necho\n", "not a torch.export archive");
    refused(b"\x80\x02\x8a\x0al\xfc\x9cF", "a pickle");
}

// Seeds of the fuzz targets

/// The seeds are these small files, so that fuzzing begins where the readers are; `WARPYARD_WRITE=1` writes them.
#[test]
fn the_seeds_of_the_fuzz_targets_are_readable() {
    let header = r#"{"__metadata__": {"format": "pt"}, "a": {"dtype": "F16", "shape": [10, 2], "data_offsets": [0, 40]}}"#;
    let weight = r#"{"config": {"weight": {"path_name": "weight_0", "tensor_meta": {"sizes": [{"as_int": 4}, {"as_int": 8}],
        "strides": [{"as_int": 8}, {"as_int": 1}], "storage_offset": {"as_int": 0}, "device": {"type": "cpu"}}}}}"#;
    let json = program(&two_layers().join(", "), BATCH);
    let seeds = [
        ("model/pt2", exported(&json)),
        ("model/onnx", convolutional(onnx_node("MatMul", &["flat", "fc"], "y", &[]))),
        ("model/safetensors", safetensors(header, 40)),
        ("model/gguf", gguf(&LLAMA, 34, 32 * 54)),
    ];
    for (_, file) in &seeds {
        assert!(read(&mut Cursor::new(file), &shapes(2)).is_ok());
    }
    let parts =
        [("m/models/model.json", json.as_str()), ("m/data/weights/model_weights_config.json", weight)];
    assert!(read(&mut Cursor::new(archive(&parts)), &shapes(2)).is_ok());
    let parts = format!("{json}\n--\n{weight}").into_bytes();
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus");
    for (name, file) in seeds.into_iter().chain([("exported_program/linear", parts)]) {
        let path = std::path::Path::new(corpus).join(name);
        if std::env::var_os("WARPYARD_WRITE").is_some() {
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("it can be made");
            std::fs::write(&path, &file).expect("it can be written");
        }
        assert!(
            std::fs::read(&path).is_ok_and(|seed| seed == file),
            "{name}: write it with WARPYARD_WRITE=1"
        );
    }
}
