//! Graphviz DOT: a `digraph` whose nodes have `work` (or `cost`, `weight`, `size`), or `costs` with a number per
//! machine, and whose edges have `data` (or `cost`, `weight`, `size`). Subgraphs are flattened; drawing attributes are
//! skipped.

use std::collections::HashMap;

use super::workflow::{Amount, Command, Task, Workflow};
use super::{LineProblem, ReadError, at_line};
use crate::instance::Edge;

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Word(String),
    Arrow,
    Sign(char),
}

impl Token {
    fn shown(&self) -> String {
        match self {
            Self::Word(word) => word.clone(),
            Self::Arrow => "->".to_owned(),
            Self::Sign(sign) => sign.to_string(),
        }
    }
}

/// Splits the text into tokens with their lines; comments are dropped, quotes removed.
fn tokens(text: &str) -> Result<Vec<(usize, Token)>, ReadError> {
    let mut found = Vec::new();
    let mut rest = text.chars().peekable();
    let mut line = 1;
    let mut fresh = true;
    while let Some(c) = rest.next() {
        let at_start = std::mem::replace(&mut fresh, c == '\n');
        match c {
            '\n' => line += 1,
            '#' if at_start => while rest.next_if(|c| *c != '\n').is_some() {},
            '/' if rest.peek() == Some(&'/') => while rest.next_if(|c| *c != '\n').is_some() {},
            '/' if rest.peek() == Some(&'*') => {
                let mut last = ' ';
                rest.next();
                for c in rest.by_ref() {
                    line += usize::from(c == '\n');
                    if last == '*' && c == '/' {
                        break;
                    }
                    last = c;
                }
            }
            '-' if rest.peek() == Some(&'>') => {
                rest.next();
                found.push((line, Token::Arrow));
            }
            '-' if rest.peek() == Some(&'-') => return at_line(line, LineProblem::Undirected),
            '"' => {
                let (mut word, start) = (String::new(), line);
                loop {
                    match rest.next() {
                        None => return Err(ReadError::TooShort("a closing quote")),
                        Some('"') => break,
                        Some('\\') if rest.peek() == Some(&'"') => word.extend(rest.next()),
                        Some(c) => {
                            line += usize::from(c == '\n');
                            word.push(c);
                        }
                    }
                }
                found.push((start, Token::Word(word)));
            }
            c if is_word(c) => {
                let mut word = String::from(c);
                while let Some(c) = rest.next_if(|c| is_word(*c)) {
                    word.push(c);
                }
                found.push((line, Token::Word(word)));
            }
            c if c.is_whitespace() => fresh |= at_start,
            c => found.push((line, Token::Sign(c))),
        }
    }
    Ok(found)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '.' || c == '-' || c == '+'
}

#[derive(Default)]
struct Graph {
    tasks: Vec<(usize, Task)>,
    index: HashMap<String, u32>,
    edges: Vec<Edge>,
    node_default: Attributes,
    edge_default: Attributes,
}

type Attributes = Vec<(usize, String, String)>;

struct Reader {
    tokens: Vec<(usize, Token)>,
    next: usize,
}

impl Reader {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn take(&mut self, what: &'static str) -> Result<(usize, Token), ReadError> {
        let token = self.tokens.get(self.next).cloned().ok_or(ReadError::TooShort(what))?;
        self.next += 1;
        Ok(token)
    }

    fn take_if(&mut self, token: &Token) -> bool {
        let there = self.peek() == Some(token);
        self.next += usize::from(there);
        there
    }

    fn word(&mut self, expected: &'static str) -> Result<(usize, String), ReadError> {
        match self.take(expected)? {
            (line, Token::Word(word)) => Ok((line, word)),
            (line, other) => at_line(line, LineProblem::Unexpected { expected, found: other.shown() }),
        }
    }

    fn attributes(&mut self) -> Result<Attributes, ReadError> {
        let mut found = Vec::new();
        while self.take_if(&Token::Sign('[')) {
            while !self.take_if(&Token::Sign(']')) {
                if self.take_if(&Token::Sign(',')) || self.take_if(&Token::Sign(';')) {
                    continue;
                }
                let (line, key) = self.word("an attribute")?;
                let mut value = String::new();
                if self.take_if(&Token::Sign('=')) {
                    value = self.word("a value")?.1;
                }
                found.push((line, key, value));
            }
        }
        Ok(found)
    }
}

pub(super) fn parse(text: &str) -> Result<Workflow, ReadError> {
    let mut reader = Reader { tokens: tokens(text)?, next: 0 };
    let mut graph = Graph::default();
    let (mut line, mut word) = reader.word("digraph")?;
    if word.eq_ignore_ascii_case("strict") {
        (line, word) = reader.word("digraph")?;
    }
    if !word.eq_ignore_ascii_case("digraph") {
        return at_line(line, LineProblem::Unexpected { expected: "digraph", found: word });
    }
    while !reader.take_if(&Token::Sign('{')) {
        reader.word("a name or {")?;
    }
    let mut depth = 1;
    while depth > 0 {
        match reader.take("the closing }")? {
            (_, Token::Sign('}')) => depth -= 1,
            (_, Token::Sign('{')) => depth += 1,
            (_, Token::Sign(';' | ',')) => (),
            (line, Token::Word(word)) => graph.statement(&mut reader, line, word)?,
            (line, other) => {
                return at_line(
                    line,
                    LineProblem::Unexpected { expected: "a node or }", found: other.shown() },
                );
            }
        }
    }
    graph.finish()
}

impl Graph {
    fn statement(&mut self, reader: &mut Reader, line: usize, word: String) -> Result<(), ReadError> {
        match word.to_ascii_lowercase().as_str() {
            "node" => self.node_default.extend(reader.attributes()?),
            "edge" => self.edge_default.extend(reader.attributes()?),
            "graph" => drop(reader.attributes()?),
            "subgraph" => {
                if matches!(reader.peek(), Some(Token::Word(_))) {
                    reader.word("a name")?;
                }
            }
            _ if reader.take_if(&Token::Sign('=')) => drop(reader.word("a value")?),
            _ => self.chain(reader, line, word)?,
        }
        Ok(())
    }

    /// Parses a node, or nodes joined by arrows.
    fn chain(&mut self, reader: &mut Reader, line: usize, word: String) -> Result<(), ReadError> {
        let mut chain = vec![self.node(line, word)?];
        port(reader)?;
        while reader.take_if(&Token::Arrow) {
            let (line, word) = reader.word("a node")?;
            chain.push(self.node(line, word)?);
            port(reader)?;
        }
        let attributes = reader.attributes()?;
        if chain.len() == 1 {
            return describe(&mut self.tasks[chain[0] as usize].1, &attributes);
        }
        let data = number(&self.edge_default, &["data", "cost", "weight", "size"])?;
        let data = number(&attributes, &["data", "cost", "weight", "size"])?.or(data).unwrap_or(0.0);
        self.edges.extend(chain.windows(2).map(|pair| Edge { from: pair[0], to: pair[1], data }));
        Ok(())
    }

    fn node(&mut self, line: usize, name: String) -> Result<u32, ReadError> {
        if let Some(index) = self.index.get(&name) {
            return Ok(*index);
        }
        let index = self.tasks.len() as u32;
        let mut task = Task { name: name.clone(), ..Task::default() };
        describe(&mut task, &self.node_default)?;
        self.tasks.push((line, task));
        self.index.insert(name, index);
        Ok(index)
    }

    fn finish(self) -> Result<Workflow, ReadError> {
        let bare = |task: &Task| task.work.is_none() && task.machine_costs.is_empty();
        if let Some((line, task)) = self.tasks.iter().find(|(_, task)| bare(task)) {
            return at_line(*line, LineProblem::NoCost(task.name.clone()));
        }
        let tasks = self.tasks.into_iter().map(|(_, task)| task).collect();
        Ok(Workflow { tasks, edges: self.edges, amount: Amount::Time, machines: None })
    }
}

/// Skips `:port`.
fn port(reader: &mut Reader) -> Result<(), ReadError> {
    while reader.take_if(&Token::Sign(':')) {
        reader.word("a port")?;
    }
    Ok(())
}

fn describe(task: &mut Task, attributes: &Attributes) -> Result<(), ReadError> {
    if let Some(work) = number(attributes, &["work", "cost", "weight", "size"])? {
        task.work = Some(work);
    }
    if let Some(release) = number(attributes, &["release"])? {
        task.release = release;
    }
    if let Some((_, _, command)) = attributes.iter().rev().find(|(_, key, _)| key == "command") {
        task.command = Some(Command::Shell(command.clone()));
    }
    if let Some((line, _, list)) = attributes.iter().find(|(_, key, _)| key == "costs") {
        let words = list.split([',', ' ']).filter(|w| !w.is_empty());
        task.machine_costs = words.map(|word| parse_number(*line, word)).collect::<Result<_, _>>()?;
    }
    Ok(())
}

/// Value of the first of `names` that occurs; its last occurrence wins.
fn number(attributes: &Attributes, names: &[&str]) -> Result<Option<f64>, ReadError> {
    let named = |name: &&str| attributes.iter().rev().find(|(_, key, _)| key == name);
    match names.iter().find_map(named) {
        None => Ok(None),
        Some((line, _, value)) => parse_number(*line, value).map(Some),
    }
}

fn parse_number(line: usize, word: &str) -> Result<f64, ReadError> {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
        _ => at_line(line, LineProblem::NotANumber(word.to_owned())),
    }
}
