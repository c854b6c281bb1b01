//! `token`: personal tokens for people, and join tokens for workers.

use crate::context::Context;
use crate::exit::Exit;
use crate::show::{Align, Screen, Table};
use clap::{Args, Subcommand, ValueEnum};
use std::fmt::Write;
use warpyard_api::quantity::Micros;
use warpyard_api::text::escape_controls;
use warpyard_api::wire::{TokenReply, TokenRequest, TokenRole, TokenView};

/// Arguments of `token`.
#[derive(Debug, Args)]
pub(crate) struct Token {
    #[command(subcommand)]
    command: TokenCommand,
}

#[derive(Debug, Subcommand)]
enum TokenCommand {
    /// Make a token and print it, this once
    Create(Create),
    /// List tokens, without their secrets
    #[command(visible_alias = "ls")]
    List,
    /// Revoke a token, at once
    Revoke {
        /// The token's id, or the beginning of it
        id: String,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// What its holder may do: user what concerns their own jobs, viewer only look, admin everything, worker join a worker
    #[arg(long, value_enum, default_value_t = Role::User)]
    role: Role,
    /// Whose it is [default: yours]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// How many workers may join with it, with --role worker [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    uses: Option<u32>,
    /// How long it is valid, such as 1h or 30d [default: 1h with --role worker, else 30d]
    #[arg(long, value_name = "TIME")]
    expires: Option<Micros>,
    /// A note to know it by
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    /// Let workers that join with it vouch for the users of their machines, with --role worker
    #[arg(long)]
    vouch: bool,
    /// The server's address that the token carries [default: the server's own idea of it]
    #[arg(long, value_name = "URL")]
    address: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Role {
    User,
    Admin,
    Viewer,
    Worker,
}

impl From<Role> for TokenRole {
    fn from(role: Role) -> TokenRole {
        match role {
            Role::User => TokenRole::User,
            Role::Admin => TokenRole::Admin,
            Role::Viewer => TokenRole::Viewer,
            Role::Worker => TokenRole::Worker,
        }
    }
}

impl Token {
    pub(crate) fn run(self, context: &Context) -> anyhow::Result<Exit> {
        let client = context.client()?;
        match self.command {
            TokenCommand::Create(Create { role, user, uses, expires, label, vouch, address }) => {
                let role = role.into();
                let request = TokenRequest { role, user, uses, expires, label, vouch, server: address };
                let made = client.token_create(&request)?;
                context.answer(&made, told)
            }
            TokenCommand::List => {
                let tokens = client.tokens()?;
                context.answer(tokens.as_slice(), table)
            }
            TokenCommand::Revoke { id } => {
                let revoked = client.token_revoke(&id)?;
                context.answer(&revoked, |revoked, _| format!("token {} is revoked\n", revoked.id))
            }
        }
    }
}

/// The token, and what to do with it.
fn told(made: &TokenReply, screen: &Screen) -> String {
    let TokenReply { token, view } = made;
    let mut out = format!("{token}\n\n");
    let mut line = |text: &str| writeln!(out, "{text}").expect("a string takes all");
    let until = screen.clock(view.expires_at);
    line(&format!(
        "It is shown this once, and valid until {until}; `warpyard token revoke {}` ends it.",
        view.id
    ));
    match view.role {
        TokenRole::Worker => {
            let workers = match view.uses_left.unwrap_or(1) {
                1 => "the machine that is to join".to_owned(),
                n => format!("each of up to {n} machines that are to join"),
            };
            line(&format!("On {workers}, run:"));
            line(&format!("  warpyard worker --join {token}"));
        }
        TokenRole::User | TokenRole::Admin | TokenRole::Viewer => {
            line(
                "On another machine, run `warpyard login --token -` and paste it, or set WARPYARD_TOKEN to it.",
            );
        }
    }
    out
}

fn table(tokens: &[TokenView], screen: &Screen) -> String {
    if tokens.is_empty() {
        return "no tokens; `warpyard token create` makes one\n".to_owned();
    }
    let mut table = Table::new([
        ("ID", Align::Left),
        ("ROLE", Align::Left),
        ("USER", Align::Left),
        ("USES LEFT", Align::Right),
        ("EXPIRES", Align::Left),
        ("LAST USED", Align::Left),
        ("LABEL", Align::Left),
    ]);
    for token in tokens {
        let role = if token.vouch { format!("{} (vouches)", token.role) } else { token.role.to_string() };
        let expires = match token.expired {
            true if token.uses_left == Some(0) => "used up".to_owned(),
            true => "expired".to_owned(),
            false => screen.clock(token.expires_at),
        };
        let used = token.last_used_at.map_or_else(|| "-".to_owned(), |at| screen.clock(at));
        table.row([
            token.id.clone().into(),
            role.into(),
            escape_controls(token.user.as_deref().unwrap_or("-")).into_owned().into(),
            token.uses_left.map_or_else(|| "-".to_owned(), |n| n.to_string()).into(),
            expires.into(),
            used.into(),
            escape_controls(token.label.as_deref().unwrap_or("")).into_owned().into(),
        ]);
    }
    table.render(screen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(role: TokenRole, uses_left: Option<u32>) -> TokenView {
        TokenView {
            id: "3f9a".into(),
            role,
            user: (role != TokenRole::Worker).then(|| "ann".into()),
            label: Some("laptop".into()),
            created_at: "2026-11-15T20:00:00Z".parse().unwrap(),
            expires_at: "2026-11-15T23:00:00Z".parse().unwrap(),
            expired: uses_left == Some(0),
            last_used_at: None,
            uses_left,
            vouch: false,
            vouched_by: None,
        }
    }

    #[test]
    fn tokens_are_listed_without_their_secrets() {
        let tokens =
            [view(TokenRole::User, None), view(TokenRole::Worker, Some(9)), view(TokenRole::Worker, Some(0))];
        let listed = table(&tokens, &Screen::for_tests(None));
        let rows: Vec<Vec<&str>> = listed.lines().skip(1).map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(rows[0][..4], ["3f9a", "user", "ann", "-"]);
        assert_eq!(rows[1][..4], ["3f9a", "worker", "-", "9"]);
        assert!(rows[2].join(" ").contains("used up"), "{listed}");
    }

    #[test]
    fn whoever_makes_a_join_token_is_told_what_to_run() {
        let made = TokenReply { token: "wyj1_AAAA".into(), view: view(TokenRole::Worker, Some(10)) };
        let said = told(&made, &Screen::for_tests(None));
        assert!(said.starts_with("wyj1_AAAA\n") && said.contains("\n  warpyard worker --join wyj1_AAAA\n"));
        assert!(said.contains("each of up to 10 machines"), "{said}");
    }
}
