//! What Python's frames keep alive beside the operators: a call of a module holds its arguments until it returns, and a local variable
//! of `forward` its value until it is assigned again or `forward` returns. Exports tell both: the calls around every node, and the
//! source lines it came from.

use std::collections::HashMap;

/// The calls of a graph's modules, nested, the innermost call of each node, and the values that local variables hold.
#[derive(Debug, Clone, Default)]
pub struct Calls {
    calls: Vec<Call>,
    innermost: Vec<Option<usize>>,
    /// Calls around the last node, outermost first.
    open: Vec<(String, usize)>,
    /// Nodes whose results a local variable held, and the last node that ran meanwhile.
    assigned: Vec<(usize, usize)>,
}

/// A run of consecutive nodes inside one call.
#[derive(Debug, Clone, Default)]
struct Call {
    first: usize,
    last: usize,
    parent: Option<usize>,
    statement: Option<Statement>,
    /// The node whose result each local variable has.
    locals: HashMap<String, usize>,
}

/// The statement of a `forward` that the last node came from.
#[derive(Debug, Clone)]
struct Statement {
    line: String,
    names: Vec<String>,
    last: usize,
}

impl Calls {
    /// Adds the next node: the names of the calls around it, outermost first, and the stack trace of its line of the source.
    pub(crate) fn push<'a>(&mut self, names: impl Iterator<Item = &'a str>, stack_trace: &str) {
        let node = self.innermost.len();
        let mut depth = 0;
        for name in names {
            // A call that is not the last node's at this depth is new, and so is all inside it.
            if self.open.get(depth).is_none_or(|(open, _)| open != name) {
                self.close(depth);
                let parent = self.open.last().map(|(_, call)| *call);
                self.calls.push(Call { first: node, last: node, parent, ..Call::default() });
                self.open.push((name.to_owned(), self.calls.len() - 1));
            }
            self.calls[self.open[depth].1].last = node;
            depth += 1;
        }
        self.close(depth);
        self.innermost.push(self.open.last().map(|(_, call)| *call));
        self.enter_statements(node, stack_trace);
    }

    /// Ends every call; nothing is added afterwards.
    pub(crate) fn finish(&mut self) {
        self.close(0);
    }

    /// Ends the open calls from `depth` on, innermost first. Their local variables go with them.
    fn close(&mut self, depth: usize) {
        while self.open.len() > depth {
            let Some((_, call)) = self.open.pop() else { return };
            self.end_statement(call);
            let Call { last, locals, .. } = &mut self.calls[call];
            self.assigned.extend(locals.drain().map(|(_, node)| (node, *last)));
        }
    }

    /// Notes for each call around a node which statement of its `forward` it came from.
    fn enter_statements(&mut self, node: usize, stack_trace: &str) {
        // Every `forward` in the trace is that of the next call inwards.
        for ((line, text), depth) in forward_frames(stack_trace).zip(0..self.open.len()) {
            let call = self.open[depth].1;
            match &mut self.calls[call].statement {
                Some(statement) if statement.line == line => statement.last = node,
                _ => {
                    self.end_statement(call);
                    let names = assigned_names(text).map(str::to_owned).collect();
                    self.calls[call].statement = Some(Statement { line: line.to_owned(), names, last: node });
                }
            }
        }
    }

    /// Assigns what a statement computed last; what its variables held before goes now.
    fn end_statement(&mut self, call: usize) {
        let call = &mut self.calls[call];
        let Some(Statement { names, last, .. }) = call.statement.take() else { return };
        for name in names {
            if let Some(before) = call.locals.insert(name, last) {
                self.assigned.push((before, last));
            }
        }
    }

    /// The last node of the outermost call that a tensor was passed into for its use at `used`; that use itself where there is none.
    pub(crate) fn held_until(&self, defined: usize, used: usize) -> usize {
        let mut until = used;
        let mut call = self.innermost.get(used).copied().flatten();
        while let Some(Call { first, last, parent, .. }) = call.map(|call| &self.calls[call])
            && defined < *first
        {
            until = *last;
            call = *parent;
        }
        until
    }

    /// Nodes whose results local variables held, each with the last node that ran meanwhile.
    pub(crate) fn assigned(&self) -> &[(usize, usize)] {
        &self.assigned
    }
}

/// Location and text of each line of a stack trace that is inside a function called `forward`, outermost first.
fn forward_frames(stack_trace: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut lines = stack_trace.lines().map(str::trim).peekable();
    std::iter::from_fn(move || {
        loop {
            let location = lines.next()?;
            if location.starts_with("File ") && location.ends_with(", in forward") {
                let text = lines.next_if(|text| !text.starts_with("File ")).unwrap_or_default();
                return Some((location, text));
            }
        }
    })
}

/// The local variables that a line assigns: `x` of `x += y`, `q` and `k` of `q, k = ...`; none of `return x` and `self.x = y`.
fn assigned_names(line: &str) -> impl Iterator<Item = &str> {
    let target = line.split_once(" = ").or_else(|| line.split_once("= ")).map_or("", |(target, _)| target);
    let target = target.trim_end_matches(['+', '-', '*', '/', '@', ' ']).trim_matches(['(', ')']);
    let is_name = |name: &&str| !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let all_names = target.split(',').map(str::trim).all(|name| is_name(&name));
    target.split(',').map(str::trim).filter(move |_| all_names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_held_until_the_outermost_call_they_were_passed_into_returns() {
        let mut calls = Calls::default();
        for stack in ["model", "model block", "model block linear", "model block", "model", "model block"] {
            calls.push(stack.split(' '), "");
        }
        calls.finish();
        assert_eq!(calls.held_until(0, 2), 3, "made before the block, used in its linear layer");
        assert_eq!(calls.held_until(1, 2), 2, "made in the block");
        assert_eq!(calls.held_until(2, 4), 4, "used by the model itself");
        assert_eq!(calls.held_until(4, 5), 5, "the block is called again");
        assert_eq!(Calls::default().held_until(0, 9), 9);
    }

    #[test]
    fn local_variables_hold_their_values_until_they_are_assigned_again() {
        let mut calls = Calls::default();
        let line =
            |number: u32, text: &str| format!("File \"m.py\", line {number}, in forward\n    {text}\n");
        let inside = format!("{}{}", line(2, "b = self.block(a)"), line(9, "y = f(x) + x"));
        for (stack, trace) in [
            ("model", line(1, "a = g(x)")),
            ("model block", inside.clone()),
            ("model block", inside),
            ("model", line(3, "a = b * 2")),
            ("model", line(4, "return a + b")),
        ] {
            calls.push(stack.split(' '), &trace);
        }
        calls.finish();
        let mut held = calls.assigned().to_vec();
        held.sort_unstable();
        // First `a` until it is assigned again, `y` until its block returns, `b` and the second `a` until the model does.
        assert_eq!(held, [(0, 3), (2, 2), (2, 4), (3, 4)]);
    }

    #[test]
    fn names_are_those_that_a_line_assigns() {
        for (line, names) in [
            ("x = f(y)", &["x"][..]),
            ("y += g(x)", &["y"]),
            ("q, k, v = qkv.split(3)", &["q", "k", "v"]),
            ("return self.f(x, inplace=True)", &[]),
            ("self.cache = x", &[]),
            ("x[0] = y", &[]),
            ("if a == b:", &[]),
            ("", &[]),
        ] {
            assert_eq!(assigned_names(line).collect::<Vec<_>>(), names, "{line}");
        }
    }
}
