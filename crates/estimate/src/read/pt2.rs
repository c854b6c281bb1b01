//! `torch.export` archives: a zip whose `models/model.json` has the graph and the shape, strides and type of every tensor. Weights
//! are not opened. Sizes that depend on the batch are evaluated; graphs inside gradient-mode wrappers are inlined.

use super::{ReadError, Shapes, plausible};
use crate::calls::Calls;
use crate::expr::{Symbols, evaluate, symbols_in};
use crate::graph::{Arg, DType, Format, Graph, Node, Role, Tensor, TensorId, row_major};
use crate::layout;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::borrow::{Borrow, Cow};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::io::{Read, Seek};
use std::ops::Deref;

/// Largest `model.json`: a graph of 2,000 operators has about 3 MB.
const MAX_JSON: u64 = 256 << 20;
/// Most files in an archive; one per weight.
const MAX_ENTRIES: usize = 200_000;
/// Deepest nesting of graphs in graphs.
const MAX_NESTING: usize = 16;

/// Reads the graph of an archive with the batch filled in.
pub(super) fn read(file: &mut (impl Read + Seek), shapes: &Shapes) -> Result<Graph, ReadError> {
    let mut archive = zip::ZipArchive::new(file).map_err(ReadError::Zip)?;
    let (graph, weights) = entry_names(&archive)?;
    let json = entry(&mut archive, &graph)?;
    let program: Program<'_> = serde_json::from_slice(&json)
        .map_err(|source| ReadError::Json { part: "models/model.json", source })?;
    let config = weights.map(|name| entry(&mut archive, &name)).transpose()?;
    let weights: WeightsConfig<'_> = match &config {
        Some(json) => serde_json::from_slice(json)
            .map_err(|source| ReadError::Json { part: "data/weights/model_weights_config.json", source })?,
        None => WeightsConfig::default(),
    };
    let symbols = bind_batch(&program, shapes)?;
    let mut graph = Builder::new(symbols).build(&program.graph_module, &weights)?;
    layout::on_cuda(&mut graph);
    Ok(graph)
}

/// Names of the graph's JSON and of the list of weights, which older archives have not.
fn entry_names<R: Read + Seek>(archive: &zip::ZipArchive<R>) -> Result<(String, Option<String>), ReadError> {
    if archive.len() > MAX_ENTRIES {
        let limit = format!("{MAX_ENTRIES} files");
        return Err(ReadError::TooLarge { what: "the archive".to_owned(), limit });
    }
    let names = archive.file_names().collect::<Result<Vec<_>, _>>().map_err(ReadError::Zip)?;
    let find = |is: &dyn Fn(&str) -> bool| names.iter().find(|name| is(name)).map(|name| name.to_string());
    let graph =
        find(&|name| name.ends_with("models/model.json") || name == "serialized_exported_program.json");
    let weights = find(&|name| name.ends_with("data/weights/model_weights_config.json"));
    match graph {
        Some(graph) => Ok((graph, weights)),
        None => Err(not_an_export(names.iter().map(|name| &**name))),
    }
}

/// The bytes of an entry. Only stored entries are read, so that nothing can expand beyond the file's own size.
fn entry<R: Read + Seek>(archive: &mut zip::ZipArchive<R>, name: &str) -> Result<Vec<u8>, ReadError> {
    let entry = archive.by_name(name).map_err(ReadError::Zip)?;
    if entry.size() > MAX_JSON {
        return Err(ReadError::TooLarge { what: name.to_owned(), limit: "256 MiB".to_owned() });
    }
    if entry.compression() != zip::CompressionMethod::Stored {
        let help = "the archive is compressed, which torch.export.save never does; pack it again without compression";
        return Err(ReadError::Unsupported(help.to_owned()));
    }
    let mut json = Vec::new();
    entry.take(MAX_JSON).read_to_end(&mut json)?;
    Ok(json)
}

/// What a zip without a graph is.
fn not_an_export<'a>(mut names: impl Iterator<Item = &'a str>) -> ReadError {
    let problem = match names.any(|name| name.ends_with("data.pkl")) {
        true => {
            "it is a checkpoint of torch.save, which has weights but no graph; save the model with torch.export.save, or the \
                 weights as safetensors"
        }
        false => "it is a zip without models/model.json, so not an archive of torch.export.save",
    };
    ReadError::Unsupported(problem.to_owned())
}

#[derive(Deserialize)]
struct Program<'a> {
    #[serde(borrow)]
    graph_module: GraphModule<'a>,
    #[serde(default)]
    range_constraints: BTreeMap<String, Range>,
}

#[derive(Deserialize)]
struct Range {
    max_val: Option<i64>,
}

#[derive(Deserialize)]
struct GraphModule<'a> {
    #[serde(borrow)]
    graph: JsonGraph<'a>,
    #[serde(borrow)]
    signature: Signature<'a>,
}

#[derive(Deserialize)]
struct Signature<'a> {
    #[serde(borrow)]
    input_specs: Vec<InputSpec<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum InputSpec<'a> {
    UserInput {
        #[serde(borrow)]
        arg: Argument<'a>,
    },
    Parameter {
        #[serde(borrow)]
        arg: Named<'a>,
        parameter_name: String,
    },
    Buffer {
        #[serde(borrow)]
        arg: Named<'a>,
    },
    TensorConstant {
        #[serde(borrow)]
        arg: Named<'a>,
    },
    CustomObj(IgnoredAny),
    Token(IgnoredAny),
    ConstantInput(IgnoredAny),
}

/// Where weights lie: those with the same file, shape and offset are one (`tie_weights`).
#[derive(Deserialize, Default)]
struct WeightsConfig<'a> {
    #[serde(borrow)]
    config: BTreeMap<String, WeightEntry<'a>>,
}

#[derive(Deserialize)]
struct WeightEntry<'a> {
    path_name: String,
    #[serde(borrow)]
    tensor_meta: WeightMeta<'a>,
}

#[derive(Deserialize)]
struct WeightMeta<'a> {
    #[serde(borrow)]
    sizes: Vec<SymInt<'a>>,
    #[serde(borrow)]
    strides: Vec<SymInt<'a>>,
    #[serde(borrow)]
    storage_offset: SymInt<'a>,
    device: Device,
}

#[derive(Deserialize)]
struct Device {
    #[serde(rename = "type")]
    kind: String,
}

/// What tells weights apart: file, offset, sizes and strides.
type WeightKey = (String, Vec<i64>);

impl WeightsConfig<'_> {
    /// What tells a weight apart from others; nothing where that is not known, as on the meta device, which has no memory.
    fn key(&self, name: &str) -> Option<WeightKey> {
        let entry = self.config.get(name).filter(|entry| entry.tensor_meta.device.kind != "meta")?;
        let meta = &entry.tensor_meta;
        let numbers = std::iter::once(&meta.storage_offset).chain(&meta.sizes).chain(&meta.strides);
        let plain = |size: &SymInt<'_>| match size {
            SymInt::AsInt(value) => Some(*value),
            SymInt::AsExpr { .. } => None,
        };
        Some((entry.path_name.clone(), numbers.map(plain).collect::<Option<_>>()?))
    }
}

#[derive(Deserialize)]
struct JsonGraph<'a> {
    #[serde(borrow)]
    inputs: Vec<Argument<'a>>,
    #[serde(borrow)]
    outputs: Vec<Argument<'a>>,
    #[serde(borrow)]
    nodes: Vec<JsonNode<'a>>,
    #[serde(borrow)]
    tensor_values: HashMap<Text<'a>, TensorMeta<'a>>,
    #[serde(borrow, default)]
    sym_int_values: HashMap<Text<'a>, SymInt<'a>>,
}

#[derive(Deserialize)]
struct JsonNode<'a> {
    #[serde(borrow)]
    target: Text<'a>,
    #[serde(borrow)]
    inputs: Vec<NamedArgument<'a>>,
    #[serde(borrow)]
    outputs: Vec<Argument<'a>>,
    #[serde(borrow, default)]
    metadata: NodeMetadata<'a>,
}

#[derive(Deserialize, Default)]
struct NodeMetadata<'a> {
    /// Calls around the node: key, path and type of each, separated by semicolons.
    #[serde(borrow, default)]
    nn_module_stack: Text<'a>,
    /// Lines of the source that the node came from, outermost first.
    #[serde(borrow, default)]
    stack_trace: Text<'a>,
}

#[derive(Deserialize)]
struct NamedArgument<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    arg: Argument<'a>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

/// A text of the JSON, not copied unless it has escapes.
#[derive(Deserialize, Default, PartialEq, Eq, Hash)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl Borrow<str> for Text<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

#[derive(Deserialize)]
struct TensorMeta<'a> {
    dtype: u32,
    #[serde(borrow)]
    sizes: Vec<SymInt<'a>>,
    #[serde(borrow)]
    strides: Vec<SymInt<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SymInt<'a> {
    AsInt(i64),
    AsExpr {
        #[serde(borrow)]
        expr_str: Text<'a>,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum SymIntArgument<'a> {
    AsInt(i64),
    #[serde(borrow)]
    AsName(Text<'a>),
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum OptionalTensor<'a> {
    #[serde(borrow)]
    AsTensor(Named<'a>),
    AsNone(IgnoredAny),
}

/// A floating-point argument; JSON has no infinities, so they are spelled out.
#[derive(Deserialize)]
#[serde(untagged)]
enum Float {
    Finite(f64),
    Spelled(String),
}

/// PyTorch's union of argument kinds; those that say nothing about memory are not looked at.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "they are called so in the schema")]
enum Argument<'a> {
    AsNone(IgnoredAny),
    #[serde(borrow)]
    AsTensor(Named<'a>),
    #[serde(borrow)]
    AsTensors(Vec<Named<'a>>),
    #[serde(borrow)]
    AsOptionalTensor(OptionalTensor<'a>),
    #[serde(borrow)]
    AsOptionalTensors(Vec<OptionalTensor<'a>>),
    AsInt(i64),
    AsInts(Vec<i64>),
    AsFloat(Float),
    AsBool(bool),
    AsString(String),
    #[serde(borrow)]
    AsSymInt(SymIntArgument<'a>),
    #[serde(borrow)]
    AsSymInts(Vec<SymIntArgument<'a>>),
    AsScalarType(u32),
    AsMemoryFormat(u32),
    AsGraph {
        #[serde(borrow)]
        graph: Box<JsonGraph<'a>>,
    },
    AsFloats(IgnoredAny),
    AsStrings(IgnoredAny),
    AsLayout(IgnoredAny),
    AsDevice(IgnoredAny),
    AsBools(IgnoredAny),
    AsSymBool(IgnoredAny),
    AsSymBools(IgnoredAny),
    AsCustomObj(IgnoredAny),
    AsOperator(IgnoredAny),
    AsSymFloat(IgnoredAny),
    AsSymFloats(IgnoredAny),
    AsComplex(IgnoredAny),
    #[serde(borrow)]
    AsNestedTensors(Vec<Vec<Named<'a>>>),
    AsIntLists(IgnoredAny),
    AsFloatLists(IgnoredAny),
    AsStringToArgument(IgnoredAny),
}

/// Element type by its number in the archive's schema.
fn dtype(number: u32) -> Option<DType> {
    Some(match number {
        1 => DType::U8,
        2 => DType::I8,
        3 | 28 => DType::I16,
        4 | 34 => DType::I32,
        5 | 35 => DType::I64,
        6 => DType::F16,
        7 => DType::F32,
        8 => DType::F64,
        9 | 10 => DType::C64,
        11 => DType::C128,
        12 => DType::Bool,
        13 => DType::Bf16,
        29..=33 => DType::F8,
        _ => return None,
    })
}

fn damaged(problem: String) -> ReadError {
    ReadError::Damaged { format: Format::Pt2, problem }
}

/// Gives the symbols of the inputs' first dimensions the batch that was asked for. Other symbols, such as a sequence length,
/// are bound by whole input shapes.
fn bind_batch(program: &Program<'_>, shapes: &Shapes) -> Result<Symbols, ReadError> {
    let graph = &program.graph_module.graph;
    let inputs: Vec<&Named<'_>> = program
        .graph_module
        .signature
        .input_specs
        .iter()
        .filter_map(|spec| match spec {
            InputSpec::UserInput { arg: Argument::AsTensor(named) } => Some(named),
            _ => None,
        })
        .collect();
    let mut symbols = Symbols::new();
    let mut fixed_batch = None;
    for (at, input) in inputs.iter().enumerate() {
        let meta = meta_of(graph, &input.name)?;
        if let Some(given) = shapes.inputs.get(at)
            && given.len() != meta.sizes.len()
        {
            let (name, has, got) = (&input.name, meta.sizes.len(), given.len());
            return Err(ReadError::Shape(format!(
                "input '{name}' has {has} dimensions, and --input gives {got}"
            )));
        }
        for (axis, size) in meta.sizes.iter().enumerate() {
            let given = shapes.inputs.get(at).map(|shape| shape[axis] as i64);
            let wanted = given.or(shapes.batch.filter(|_| axis == 0).map(|batch| batch as i64));
            match (size, wanted) {
                (SymInt::AsExpr { expr_str }, Some(wanted)) => {
                    // Only plain symbols are bound; what is computed from them follows.
                    if let [symbol] = symbols_in(expr_str).as_slice()
                        && evaluate(expr_str, &Symbols::from([(symbol.clone(), 7919)])) == Ok(7919)
                    {
                        symbols.entry(symbol.clone()).or_insert(wanted);
                    }
                }
                (SymInt::AsInt(fixed), Some(wanted)) if *fixed != wanted && given.is_some() => {
                    let name = &input.name;
                    return Err(ReadError::Shape(format!(
                        "dimension {axis} of input '{name}' was exported as {fixed}, not {wanted}; export it with dynamic_shapes, or \
                         leave it as it is"
                    )));
                }
                (SymInt::AsInt(fixed), _) if axis == 0 => fixed_batch = fixed_batch.or(Some(*fixed)),
                _ => {}
            }
        }
    }
    if let (Some(batch), true, Some(fixed)) = (shapes.batch, symbols.is_empty(), fixed_batch)
        && i64::try_from(batch) != Ok(fixed)
    {
        return Err(ReadError::Shape(format!(
            "the model was exported for a batch of {fixed} and takes no other; export it with dynamic_shapes={{0: Dim(\"batch\")}} to \
             choose with --batch"
        )));
    }
    for (symbol, range) in &program.range_constraints {
        // Below the range only the special cases 0 and 1 of export lie, where the formulas still hold.
        if let (Some(value), Some(max)) = (symbols.get(symbol), range.max_val)
            && *value > max
        {
            return Err(ReadError::Shape(format!("the model was exported for at most {max}, not {value}")));
        }
    }
    let sizes = inputs.iter().map(|input| meta_of(graph, &input.name)).collect::<Result<Vec<_>, _>>()?;
    let is_open = |size: &SymInt<'_>| match size {
        SymInt::AsInt(_) => false,
        SymInt::AsExpr { expr_str } => {
            symbols_in(expr_str).iter().any(|symbol| !symbols.contains_key(symbol))
        }
    };
    if sizes.iter().flat_map(|meta| &meta.sizes).any(is_open) {
        let help = "the model was exported with dynamic dimensions; say how large they are: --batch N for the first, or --input AxBxC";
        return Err(ReadError::Shape(help.to_owned()));
    }
    Ok(symbols)
}

fn meta_of<'g, 'j>(graph: &'g JsonGraph<'j>, name: &str) -> Result<&'g TensorMeta<'j>, ReadError> {
    graph.tensor_values.get(name).ok_or_else(|| damaged(format!("tensor '{name:.80}' has no shape")))
}

/// The graph under construction. Names are unique within one JSON graph, so each nested one has a scope of its own.
struct Builder {
    symbols: Symbols,
    tensors: Vec<Tensor>,
    nodes: Vec<Node>,
    calls: Calls,
}

type Scope<'a> = HashMap<&'a str, TensorId>;

impl Builder {
    fn new(symbols: Symbols) -> Self {
        Self { symbols, tensors: Vec::new(), nodes: Vec::new(), calls: Calls::default() }
    }

    fn build(mut self, module: &GraphModule<'_>, weights: &WeightsConfig<'_>) -> Result<Graph, ReadError> {
        let graph = &module.graph;
        let mut scope = Scope::new();
        let mut tied: BTreeMap<WeightKey, TensorId> = BTreeMap::new();
        for spec in &module.signature.input_specs {
            let (name, role) = match spec {
                InputSpec::Parameter { arg, parameter_name } => {
                    let key = weights.key(parameter_name);
                    let earlier = key.as_ref().and_then(|key| tied.get(key)).copied();
                    let id = earlier.map_or_else(|| self.tensor(graph, &arg.name, Role::Parameter), Ok)?;
                    scope.insert(&arg.name, id);
                    tied.extend(key.map(|key| (key, id)));
                    continue;
                }
                InputSpec::Buffer { arg } | InputSpec::TensorConstant { arg } => (&arg.name, Role::Buffer),
                InputSpec::UserInput { arg: Argument::AsTensor(arg) } => (&arg.name, Role::Input),
                _ => continue,
            };
            let id = self.tensor(graph, name, role)?;
            scope.insert(name, id);
        }
        self.nodes(graph, &mut scope, false, 0)?;
        self.calls.finish();
        let outputs = graph.outputs.iter().flat_map(names);
        let outputs = outputs.map(|name| lookup(&scope, name)).collect::<Result<_, _>>()?;
        let Self { tensors, nodes, calls, .. } = self;
        Ok(Graph { format: Format::Pt2, tensors, nodes, outputs, calls })
    }

    fn nodes<'a>(
        &mut self,
        graph: &'a JsonGraph<'_>,
        scope: &mut Scope<'a>,
        detached: bool,
        depth: usize,
    ) -> Result<(), ReadError> {
        if depth > MAX_NESTING {
            return Err(damaged(format!("graphs are nested more than {MAX_NESTING} deep")));
        }
        for node in &graph.nodes {
            // A wrapper that only sets whether gradients are wanted; its graph runs in its place.
            let nested = node.inputs.iter().find_map(|input| match &input.arg {
                Argument::AsGraph { graph } => Some(&**graph),
                _ => None,
            });
            if let Some(nested) = nested.filter(|_| node.target.contains("wrap_with_")) {
                let detached = detached
                    || (node.target.contains("set_grad_enabled")
                        && matches!(node.inputs.first().map(|i| &i.arg), Some(Argument::AsBool(false))));
                self.inline(node, nested, scope, detached, depth + 1)?;
                continue;
            }
            if node.outputs.iter().flat_map(names).next().is_none() {
                continue; // arithmetic on sizes, and assertions
            }
            self.node(graph, node, scope, detached)?;
        }
        Ok(())
    }

    fn inline<'a>(
        &mut self,
        node: &'a JsonNode<'_>,
        nested: &'a JsonGraph<'_>,
        scope: &mut Scope<'a>,
        detached: bool,
        depth: usize,
    ) -> Result<(), ReadError> {
        let given = node.inputs.iter().flat_map(|input| names(&input.arg));
        let given = given.map(|name| lookup(scope, name)).collect::<Result<Vec<_>, _>>()?;
        let wanted: Vec<&str> = nested.inputs.iter().flat_map(names).collect();
        if given.len() != wanted.len() {
            return Err(damaged(format!("'{:.80}' is called with another number of tensors", node.target)));
        }
        let mut inner: Scope<'a> = wanted.into_iter().zip(given).collect();
        self.nodes(nested, &mut inner, detached, depth)?;
        let results = nested.outputs.iter().flat_map(names);
        for (outer, result) in node.outputs.iter().flat_map(names).zip(results) {
            scope.insert(outer, lookup(&inner, result)?);
        }
        Ok(())
    }

    fn node<'a>(
        &mut self,
        graph: &'a JsonGraph<'_>,
        node: &'a JsonNode<'_>,
        scope: &mut Scope<'a>,
        detached: bool,
    ) -> Result<(), ReadError> {
        let mut args = Vec::with_capacity(node.inputs.len());
        for input in &node.inputs {
            args.push(((*input.name).to_owned(), self.arg(graph, &input.arg, scope)?));
        }
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for name in node.outputs.iter().flat_map(names) {
            let id = self.tensor(graph, name, Role::Activation)?;
            if scope.insert(name, id).is_some() {
                return Err(damaged(format!("tensor '{name:.80}' is computed twice")));
            }
            outputs.push(id);
        }
        let names = node.metadata.nn_module_stack.split(';').filter_map(|call| call.split(',').next());
        self.calls.push(names, &node.metadata.stack_trace);
        self.nodes.push(Node { operator: operator(&node.target).to_owned(), args, outputs, detached });
        Ok(())
    }

    fn tensor(&mut self, graph: &JsonGraph<'_>, name: &str, role: Role) -> Result<TensorId, ReadError> {
        let meta = meta_of(graph, name)?;
        let shape = self.sizes(name, &meta.sizes)?;
        plausible(name, &shape)?;
        let strides = self.sizes(name, &meta.strides)?;
        let strides = if strides.len() == shape.len() { strides } else { row_major(&shape) };
        let dtype = dtype(meta.dtype).ok_or_else(|| {
            damaged(format!("tensor '{name:.80}' has the unknown element type {}", meta.dtype))
        })?;
        let id = TensorId(self.tensors.len() as u32);
        self.tensors.push(Tensor { name: name.to_owned(), dtype, shape, strides, role });
        Ok(id)
    }

    fn sizes(&self, tensor: &str, sizes: &[SymInt<'_>]) -> Result<Vec<u64>, ReadError> {
        let size = |size: &SymInt<'_>| {
            let value = self.value(tensor, size)?;
            u64::try_from(value).map_err(|_| damaged(format!("tensor '{tensor:.80}' has a negative size")))
        };
        sizes.iter().map(size).collect()
    }

    fn value(&self, tensor: &str, size: &SymInt<'_>) -> Result<i64, ReadError> {
        match size {
            SymInt::AsInt(value) => Ok(*value),
            SymInt::AsExpr { expr_str } => evaluate(expr_str, &self.symbols)
                .map_err(|source| ReadError::Size { tensor: tensor.chars().take(80).collect(), source }),
        }
    }

    fn arg(&self, graph: &JsonGraph<'_>, arg: &Argument<'_>, scope: &Scope<'_>) -> Result<Arg, ReadError> {
        // Sizes that arguments mention matter little once every result's shape is known; one that cannot be computed is absent.
        let sym = |argument: &SymIntArgument<'_>| match argument {
            SymIntArgument::AsInt(value) => Some(*value),
            SymIntArgument::AsName(name) => {
                graph.sym_int_values.get(&**name).and_then(|size| self.value(name, size).ok())
            }
        };
        Ok(match arg {
            Argument::AsTensor(_) | Argument::AsOptionalTensor(OptionalTensor::AsTensor(_)) => {
                let name = names(arg).next().expect("it has one");
                Arg::Tensor(lookup(scope, name)?)
            }
            Argument::AsTensors(_) | Argument::AsOptionalTensors(_) | Argument::AsNestedTensors(_) => {
                Arg::Tensors(names(arg).map(|name| lookup(scope, name)).collect::<Result<_, _>>()?)
            }
            Argument::AsInt(value) => Arg::Int(*value),
            Argument::AsInts(values) => Arg::Ints(values.clone()),
            Argument::AsFloat(Float::Finite(value)) => Arg::Float(*value),
            Argument::AsFloat(Float::Spelled(text)) => Arg::Text(text.clone()),
            Argument::AsBool(value) => Arg::Bool(*value),
            Argument::AsString(text) => Arg::Text(text.clone()),
            Argument::AsSymInt(argument) => sym(argument).map_or(Arg::None, Arg::Int),
            Argument::AsSymInts(arguments) => {
                arguments.iter().map(sym).collect::<Option<_>>().map_or(Arg::None, Arg::Ints)
            }
            Argument::AsScalarType(number) | Argument::AsMemoryFormat(number) => Arg::Int(i64::from(*number)),
            _ => Arg::None,
        })
    }
}

/// Names of the tensors in an argument.
fn names<'g>(arg: &'g Argument<'_>) -> Box<dyn Iterator<Item = &'g str> + 'g> {
    match arg {
        Argument::AsTensor(named) => Box::new(std::iter::once(&*named.name)),
        Argument::AsTensors(all) => Box::new(all.iter().map(|named| &*named.name)),
        Argument::AsNestedTensors(all) => Box::new(all.iter().flatten().map(|named| &*named.name)),
        Argument::AsOptionalTensor(OptionalTensor::AsTensor(named)) => {
            Box::new(std::iter::once(&*named.name))
        }
        Argument::AsOptionalTensors(all) => Box::new(all.iter().filter_map(|tensor| match tensor {
            OptionalTensor::AsTensor(named) => Some(&*named.name),
            OptionalTensor::AsNone(_) => None,
        })),
        _ => Box::new(std::iter::empty()),
    }
}

fn lookup(scope: &Scope<'_>, name: &str) -> Result<TensorId, ReadError> {
    // Nodes are in execution order, so a cycle shows as a use before the definition.
    scope
        .get(name)
        .copied()
        .ok_or_else(|| damaged(format!("tensor '{name:.80}' is used before it is computed")))
}

/// `torch.ops.aten.add_.Tensor` is `add_`; operators outside ATen keep their namespace.
fn operator(target: &str) -> &str {
    let target = target.strip_prefix("torch.ops.").unwrap_or(target);
    match target.strip_prefix("aten.") {
        Some(name) => name.split('.').next().unwrap_or(name),
        None => target,
    }
}
