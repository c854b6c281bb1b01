//! Symbolic sizes: the expressions that `torch.export` writes for dimensions that depend on the batch, as SymPy prints them
//! (`s77*49`, `floor(s0/2)`) or spells them out (`Mul(Integer(49), Symbol('s77', integer=True))`), evaluated for given symbols.

use std::collections::BTreeMap;

/// Values of symbols.
pub(crate) type Symbols = BTreeMap<String, i64>;

/// Nesting beyond this is refused, so that a made-up expression cannot exhaust the stack.
const MAX_DEPTH: usize = 64;

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// Not an expression that is understood.
    #[error("size '{0}' is not understood")]
    Syntax(String),
    /// A symbol without a value.
    #[error("size '{expr}' depends on '{symbol}', which is not the batch")]
    Unbound {
        /// The expression.
        expr: String,
        /// The symbol.
        symbol: String,
    },
    /// A value that no size can have.
    #[error("size '{0}' has no value that fits")]
    Range(String),
}

/// Evaluates an expression.
pub(crate) fn evaluate(text: &str, symbols: &Symbols) -> Result<i64, ExprError> {
    let shown: String = text.chars().take(120).collect();
    let mut parser = Parser { rest: text, symbols, shown: &shown };
    let value = parser.sum(0)?;
    match parser.peek() {
        None => whole(value).ok_or(ExprError::Range(shown)),
        Some(_) => Err(ExprError::Syntax(shown)),
    }
}

/// Symbols that occur in an expression.
pub(crate) fn symbols_in(text: &str) -> Vec<String> {
    let quoted = text.split("Symbol('").skip(1).filter_map(|rest| rest.split('\'').next());
    let names: Vec<String> = quoted.map(str::to_owned).collect();
    if !names.is_empty() {
        return names;
    }
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_symbol = |word: &&str| {
        let mut letters = word.chars();
        matches!(letters.next(), Some('s' | 'u')) && word.len() > 1 && letters.all(|c| c.is_ascii_digit())
    };
    words.filter(is_symbol).map(str::to_owned).collect()
}

/// Sizes are whole; quotients on the way to them need not be.
fn whole(value: f64) -> Option<i64> {
    (value.is_finite() && value.abs() < 9e15 && value.fract() == 0.0).then_some(value as i64)
}

struct Parser<'a> {
    rest: &'a str,
    symbols: &'a Symbols,
    shown: &'a str,
}

impl Parser<'_> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn eat(&mut self, token: &str) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn syntax(&self) -> ExprError {
        ExprError::Syntax(self.shown.to_owned())
    }

    fn sum(&mut self, depth: usize) -> Result<f64, ExprError> {
        if depth > MAX_DEPTH {
            return Err(self.syntax());
        }
        let mut value = self.product(depth)?;
        loop {
            if self.eat("+") {
                value += self.product(depth)?;
            } else if self.eat("-") {
                value -= self.product(depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self, depth: usize) -> Result<f64, ExprError> {
        let mut value = self.power(depth)?;
        loop {
            if self.eat("//") {
                value = (value / self.power(depth)?).floor();
            } else if self.eat("*") {
                value *= self.power(depth)?;
            } else if self.eat("/") {
                value /= self.power(depth)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn power(&mut self, depth: usize) -> Result<f64, ExprError> {
        let value = self.atom(depth)?;
        match self.eat("**") {
            true => Ok(value.powf(self.atom(depth + 1)?)),
            false => Ok(value),
        }
    }

    fn atom(&mut self, depth: usize) -> Result<f64, ExprError> {
        if depth > MAX_DEPTH {
            return Err(self.syntax());
        }
        if self.eat("(") {
            let value = self.sum(depth + 1)?;
            return if self.eat(")") { Ok(value) } else { Err(self.syntax()) };
        }
        if self.eat("-") {
            return Ok(-self.atom(depth + 1)?);
        }
        let first = self.peek().ok_or_else(|| self.syntax())?;
        if first.is_ascii_digit() {
            let end = self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
            let (digits, rest) = self.rest.split_at(end);
            self.rest = rest;
            return digits.parse().map_err(|_| self.syntax());
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        match name {
            "" => Err(self.syntax()),
            "Symbol" => self.spelled_symbol(),
            _ if self.eat("(") => {
                let args = self.arguments(depth)?;
                apply(name, &args).ok_or_else(|| self.syntax())
            }
            _ => self.symbol(name),
        }
    }

    /// What follows the word `Symbol`: a quoted name and its assumptions, which do not matter here.
    fn spelled_symbol(&mut self) -> Result<f64, ExprError> {
        if !self.eat("('") {
            return Err(self.syntax());
        }
        let (name, rest) = self.rest.split_once('\'').ok_or_else(|| self.syntax())?;
        let (_assumptions, rest) = rest.split_once(')').ok_or_else(|| self.syntax())?;
        self.rest = rest;
        self.symbol(name)
    }

    fn symbol(&self, name: &str) -> Result<f64, ExprError> {
        let value = self.symbols.get(name).map(|value| *value as f64);
        value.ok_or_else(|| ExprError::Unbound { expr: self.shown.to_owned(), symbol: name.to_owned() })
    }

    fn arguments(&mut self, depth: usize) -> Result<Vec<f64>, ExprError> {
        let mut args = Vec::new();
        while !self.eat(")") {
            if !args.is_empty() && !self.eat(",") {
                return Err(self.syntax());
            }
            args.push(self.sum(depth + 1)?);
        }
        Ok(args)
    }
}

/// SymPy's functions that occur in sizes, also under the names PyTorch gives its own variants.
fn apply(name: &str, args: &[f64]) -> Option<f64> {
    Some(match (name, args) {
        ("Integer" | "ToFloat" | "TruncToInt" | "Identity", [value]) => *value,
        ("Rational" | "IntTrueDiv" | "FloatTrueDiv", [a, b]) => a / b,
        ("Add", args) => args.iter().sum(),
        ("Mul", args) => args.iter().product(),
        ("Pow" | "PowByNatural", [a, b]) => a.powf(*b),
        ("Max", args) => args.iter().copied().fold(f64::MIN, f64::max),
        ("Min", args) => args.iter().copied().fold(f64::MAX, f64::min),
        ("FloorDiv" | "CleanDiv", [a, b]) => (a / b).floor(),
        ("CeilDiv", [a, b]) => (a / b).ceil(),
        ("floor" | "FloorToInt", [value]) => value.floor(),
        ("ceiling" | "CeilToInt", [value]) => value.ceil(),
        ("Mod" | "PythonMod", [a, b]) => a.rem_euclid(*b),
        ("ModularIndexing", [a, by, modulus]) => (a / by).floor().rem_euclid(*modulus),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Result<i64, ExprError> {
        evaluate(text, &Symbols::from([("s77".to_owned(), 10)]))
    }

    #[test]
    fn both_ways_of_writing_are_read() {
        for (text, expected) in [
            ("7", 7),
            ("s77", 10),
            ("49*s77 + 1", 491),
            ("(s77 - 1)//2", 4),
            ("s77**2", 100),
            ("Symbol('s77', positive=True, integer=True)", 10),
            ("Mul(Integer(49), Symbol('s77', positive=True, integer=True))", 490),
            ("Add(Integer(-1), Mul(Integer(2), Symbol('s77')))", 19),
            ("FloorDiv(Symbol('s77'), Integer(3))", 3),
            ("Mul(Rational(1, 2), Symbol('s77'))", 5),
            ("Max(1, s77)", 10),
        ] {
            assert_eq!(value(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_has_no_value_is_an_error() {
        assert!(matches!(value("s3"), Err(ExprError::Unbound { symbol, .. }) if symbol == "s3"));
        for text in
            ["", "s77 s77", "frob(1)", "Symbol(s77)", "(1", "1 +", &"(".repeat(100_000), &"-".repeat(100_000)]
        {
            assert!(matches!(value(text), Err(ExprError::Syntax(_))), "{text:.20}");
        }
        for text in ["1/0", "s77/3", "10**400"] {
            assert!(matches!(value(text), Err(ExprError::Range(_))), "{text}");
        }
    }

    #[test]
    fn symbols_are_found() {
        assert_eq!(symbols_in("Mul(Integer(49), Symbol('s77', integer=True))"), ["s77"]);
        assert_eq!(symbols_in("49*s77 + s3"), ["s77", "s3"]);
    }
}
