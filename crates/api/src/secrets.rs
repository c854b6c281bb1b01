//! Masking of secrets in environments, command lines and quoted documents, by their names and forms. A heuristic that rather
//! masks too much than too little. What a task prints is not masked.

/// Substrings of words that mark a secret. A name is split into words: `API_KEY`, `--api-key` and `apiKey` all into `API`
/// and `KEY`.
const SECRET_WORDS: [&str; 10] =
    ["SECRET", "TOKEN", "PASS", "KEY", "CREDENTIAL", "CREDS", "AUTH", "COOKIE", "PRIVATE", "DSN"];

/// Prefixes of words that contain one of [`SECRET_WORDS`] but mark no secret.
const HARMLESS_PREFIXES: [&str; 13] = [
    "TOKENIZ", "TOKENIS", "AUTHOR", "PASSES", "PASSAGE", "PASSED", "BYPASS", "COMPASS", "KEYBOARD",
    "KEYFRAME", "KEYPOINT", "KEYWORD", "MONKEY",
];

/// Prefixes of words that begin like those but do mark a secret.
const SECRET_PREFIXES: [&str; 2] = ["AUTHORIZ", "AUTHORIS"];

/// Words that make `TOKENS` a number of a model's tokens, and no secret, anywhere in the name.
const TOKEN_COUNT_WORDS: [&str; 10] =
    ["MAX", "MIN", "NUM", "N", "TOTAL", "COUNT", "LIMIT", "BUDGET", "LENGTH", "LEN"];

/// Words that do so directly before or after it.
const TOKEN_MODEL_WORDS: [&str; 16] = [
    "PROMPT",
    "COMPLETION",
    "INPUT",
    "OUTPUT",
    "CONTEXT",
    "BATCH",
    "BATCHED",
    "TRAIN",
    "TRAINING",
    "EVAL",
    "SPECIAL",
    "STOP",
    "NEW",
    "GENERATED",
    "IMAGE",
    "PER",
];

/// Prefixes of the tokens of well-known services.
const SERVICE_TOKEN_PREFIXES: [&str; 11] =
    ["hf_", "sk-", "ghp_", "gho_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "ASIA", "eyJ"];

/// The shortest such token.
const MIN_SERVICE_TOKEN_LENGTH: usize = 20;

/// The text shown in place of a secret.
pub const MASK: &str = "••••••";

/// Masks the value of a variable if its name or form marks it as a secret.
pub fn mask_value(name: &str, value: &str) -> String {
    if is_secret(name) { MASK.into() } else { mask_text(value) }
}

/// A program and its arguments as one line, with secrets masked.
pub fn mask_command(command: &[String]) -> String {
    let mut flag = "";
    let mut shown = Vec::with_capacity(command.len());
    for argument in command {
        let follows = !flag.is_empty() && !argument.starts_with(['-', '$']);
        shown.push(match argument.split_once(':') {
            _ if follows && is_secret(flag) => MASK.to_owned(),
            Some((user, password)) if follows && !password.is_empty() => format!("{user}:{MASK}"),
            _ => mask_text(argument),
        });
        flag = if takes_secret(argument) { argument } else { "" };
    }
    shown.join(" ")
}

fn is_secret(name: &str) -> bool {
    let words = split_words(name);
    let counts = words.iter().any(|word| TOKEN_COUNT_WORDS.contains(&word.as_str()));
    let beside = |at: Option<usize>| {
        at.and_then(|at| words.get(at)).is_some_and(|word| TOKEN_MODEL_WORDS.contains(&word.as_str()))
    };
    words.iter().enumerate().any(|(at, word)| match word.as_str() {
        "TOKENS" => !counts && !beside(at.checked_sub(1)) && !beside(at.checked_add(1)),
        // Alone it is the directory one is in.
        "PWD" => at > 0,
        word => is_secret_word(word),
    })
}

fn is_secret_word(word: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|begin| word.starts_with(begin));
    (!begins(&HARMLESS_PREFIXES) || begins(&SECRET_PREFIXES))
        && SECRET_WORDS.iter().any(|part| word.contains(part))
}

/// The words of a name in capitals, split at other characters than letters and digits and before a capital that follows a
/// small letter. `maxtokens` is split too.
fn split_words(name: &str) -> Vec<String> {
    let (mut words, mut after_small) = (vec![String::new()], false);
    for c in name.chars() {
        if !c.is_alphanumeric() || (after_small && c.is_uppercase()) {
            words.push(String::new());
        }
        if c.is_alphanumeric() {
            words.last_mut().expect("there is one").extend(c.to_uppercase());
        }
        after_small = c.is_lowercase();
    }
    let apart = |word: String| match word.strip_suffix("TOKENS") {
        Some(before) if !before.is_empty() => vec![before.to_owned(), "TOKENS".to_owned()],
        _ => vec![word],
    };
    words.into_iter().filter(|word| !word.is_empty()).flat_map(apart).collect()
}

/// Whether an argument is a flag whose value is a secret, or a user and a password.
fn takes_secret(argument: &str) -> bool {
    argument.starts_with('-') && !argument.contains(['=', ' ']) && (is_secret(argument) || is_user(argument))
}

fn is_user(flag: &str) -> bool {
    matches!(flag, "-u" | "--user" | "--proxy-user")
}

/// Masks the secrets in a text, such as a shell command.
pub fn mask_text(text: &str) -> String {
    let (mut out, mut rest, mut begins) = (String::with_capacity(text.len()), text, true);
    while let Some(first) = rest.chars().next() {
        if begins && let Some((before, hidden)) = secret_in(rest) {
            out.push_str(&rest[..before]);
            out.push_str(MASK);
            rest = &rest[before + hidden..];
            begins = false;
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
        begins = first.is_whitespace() || "\"';&|(?,{=@".contains(first);
    }
    out
}

/// The offset and length in bytes of a secret in what a text begins with, if there is one.
fn secret_in(text: &str) -> Option<(usize, usize)> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let (name, after) = text.split_at(length);
    let at = |rest: &str| text.len() - rest.len();
    let spaced = after.trim_start_matches(' ');
    if let Some(value) = after.strip_prefix("://") {
        let authority = &value[..value.find(['/', ' ', '"', '\'']).unwrap_or(value.len())];
        let (who, _) = authority.rsplit_once('@')?;
        let (_, password) = who.split_once(':')?;
        return non_empty_span(at(value) + who.len() - password.len(), password.len());
    }
    if SERVICE_TOKEN_PREFIXES.iter().any(|begin| name.starts_with(begin))
        && name.len() >= MIN_SERVICE_TOKEN_LENGTH
    {
        return non_empty_span(0, name.len());
    }
    if is_user(name) && spaced.len() < after.len() {
        let end = word_end(spaced);
        let colon = spaced[..end].find(':')?;
        return non_empty_span(at(spaced) + colon + 1, end - colon - 1);
    }
    if matches!(&*name.to_ascii_lowercase(), "bearer" | "basic") && spaced.len() < after.len() {
        return value_span(text, spaced, word_end);
    }
    if name.is_empty() || !is_secret(name) {
        return None;
    }
    if let Some(value) = after.strip_prefix('=') {
        return value_span(text, value, word_end);
    }
    // A line of a job document.
    if let Some(value) = after.trim_start_matches(['"', '\'', ' ']).strip_prefix('=') {
        return value_span(text, value.trim_start(), word_end);
    }
    // A header, or a field of a JSON object: all of it up to the quotes that close it.
    if let Some(value) = after.trim_start_matches(['"', '\'']).strip_prefix(':') {
        return value_span(text, value.trim_start(), |v| v.find(['"', '\'', '\n', '}']).unwrap_or(v.len()));
    }
    let flag = name.starts_with('-') && spaced.len() < after.len() && !spaced.starts_with('-');
    if flag { value_span(text, spaced, word_end) } else { None }
}

/// The span of a value in a text: between its quotes, or up to where `end` says.
fn value_span(text: &str, value: &str, end: impl Fn(&str) -> usize) -> Option<(usize, usize)> {
    let before = text.len() - value.len();
    match value.chars().next()? {
        // A variable's value is not in the text.
        '$' => None,
        quote @ ('"' | '\'') => {
            let inside = &value[1..];
            if inside.starts_with('$') {
                return None;
            }
            non_empty_span(before + 1, inside.find(quote).unwrap_or(inside.len()))
        }
        _ => non_empty_span(before, end(value)),
    }
}

fn word_end(value: &str) -> usize {
    value.find(|c: char| c.is_whitespace() || "\"';&|)".contains(c)).unwrap_or(value.len())
}

fn non_empty_span(before: usize, length: usize) -> Option<(usize, usize)> {
    (length > 0).then_some((before, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names whose values are secrets.
    const HIDDEN: &str = "API_KEY wandb_api_key HF_TOKEN DB_PASSWORD AWS_SECRET_ACCESS_KEY AWS_SECRET_KEYS API_TOKENS \
        apiTokens --api-tokens HF_TOKENS TOKENS apitokens USER_ACCESS_TOKENS API_KEYS openAiApiKey APIKEY PGPASSWORD \
        MYSQL_PWD --db-pwd SMTP_PASS GOOGLE_CREDENTIALS AWS_CREDS AUTHORIZATION HTTP_AUTH_HEADER SESSION_COOKIES \
        SSH_PRIVATE_KEY SENTRY_DSN MAX_SECRET_TOKENS MONKEY_KEY TOKENIZER_TOKEN GITHUB_TOKEN_2 oauth2Token";

    /// Names that look like them.
    const SHOWN: &str = "PATH PWD OLDPWD MAX_TOKENS --max-tokens --max-new-tokens maxTokens maxtokens NUM_TOKENS n_tokens \
        --num-speculative-tokens TOKENS_PER_BATCH BATCH_TOKENS --max-num-batched-tokens PROMPT_TOKENS \
        ADD_SPECIAL_TOKENS TOKENS_LIMIT TOKENIZERS_PARALLELISM --tokenizer GIT_AUTHOR_NAME AUTHORS --passes PASSAGES \
        KEYPOINTS --keyframes KEYBOARD --keyword BYPASS_CACHE";

    #[test]
    fn names_tell_secrets_from_what_only_looks_like_them() {
        for name in HIDDEN.split_whitespace() {
            assert!(is_secret(name), "{name} is shown");
        }
        for name in SHOWN.split_whitespace() {
            assert!(!is_secret(name), "{name} is hidden");
        }
    }

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(mask_value("API_TOKENS", "hunter2,hunter3"), MASK);
        assert_eq!(mask_value("URL", "postgres://ann:hunter2@db/x"), "postgres://ann:••••••@db/x");
        assert_eq!(mask_value("HUB", "hf_abcdefghijklmnopqrstuvwxyz"), MASK);
        for (name, value) in [
            ("PATH", "/usr/bin:/bin"),
            ("URL", "https://host/a:b@c"),
            ("TOKENIZERS_PARALLELISM", "false"),
            ("MAX_TOKENS", "512"),
        ] {
            assert_eq!(mask_value(name, value), value);
        }
    }

    #[test]
    fn secrets_in_command_lines_are_not_shown() {
        let line = |words: &[&str]| mask_command(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        for words in [
            &["train", "--token=hunter2"][..],
            &["train", "--api-key", "hunter2"],
            &["curl", "-H", "Authorization: Bearer hunter2", "host"],
            &["curl", "-u", "ann:hunter2", "host"],
            &["sh", "-c", "API_KEY=hunter2 python train.py"],
            &["sh", "-c", "export WANDB_API_KEY='hunter2 x'; run"],
            &["sh", "-c", "curl -H \"X-Api-Key: hunter2\" -H 'Authorization: Bearer hunter2' host | sh"],
            &["sh", "-c", "mysql --password hunter2 && curl -u ann:hunter2 'https://h/?token=hunter2&n=1'"],
            &["sh", "-c", "git clone https://ann:hunter2@host/x"],
            &["curl", "-d", "{\"password\": \"hunter2\", \"n\": 1}"],
            &["echo", "ghp_hunter2hunter2hunter2"],
            &["env = { API_KEY = \"hunter2\", \"DB_PASSWORD\"= 'hunter2', MYSQL_PWD = \"hunter2\" }"],
        ] {
            let shown = line(words);
            assert!(!shown.contains("hunter2") && shown.contains(MASK), "{words:?}: {shown}");
        }
        assert_eq!(
            line(&["sh", "-c", "A_TOKEN=x python t.py --lr 0.1"]),
            "sh -c A_TOKEN=•••••• python t.py --lr 0.1"
        );
        assert_eq!(
            line(&["curl", "-H", "Authorization: Bearer x", "host"]),
            "curl -H Authorization: •••••• host"
        );
    }

    #[test]
    fn what_is_no_secret_is_shown() {
        for words in [
            &["python", "train.py", "--tokenizer", "bert", "--max-tokens=512"][..],
            &["sh", "-c", "login --token $HF_TOKEN --password \"$PW\" ; echo a:b"],
            &["sort", "-u", "a.txt"],
            &["scp", "ann@host:/x", "."],
        ] {
            let words: Vec<_> = words.iter().map(|w| (*w).to_owned()).collect();
            assert_eq!(mask_command(&words), words.join(" "));
        }
    }
}
