//! `corten token`: creates, lists and deletes the bootstrap tokens with which machines join the cluster as nodes, and creates
//! server tokens (`server_join::token`), with which they join as servers and which are not stored.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Subcommand;
use corten_api::{Value, time, value};
use corten_apiserver::go_duration;
use corten_base::Clock;
use corten_client::{Client, DeleteOptions, Key, Remote, kinds};
use corten_pki::Credentials;
use jiff::Timestamp;

use crate::join::{Invitation, fingerprint};
use crate::kubeconfig::AdminFlags;
use crate::server::{BOOTSTRAPPERS, node_network};
use crate::server_join::TokenKey;
use crate::table;

const NODE_TTL: &str = "24h";
const SERVER_TTL: &str = "2h";
const LONGEST_SERVER_TTL: Duration = Duration::from_secs(24 * 3600);
const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const USAGE: &str = "usage-bootstrap-";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    admin: AdminFlags,
}

#[derive(Subcommand)]
enum Command {
    /// Create a token and print it.
    Create(CreateArgs),
    /// List all tokens.
    List,
    /// Delete tokens, by ID or by the whole token.
    Delete {
        #[arg(required = true)]
        tokens: Vec<String>,
    },
}

#[derive(clap::Args)]
struct CreateArgs {
    /// Token to create, such as abcdef.0123456789abcdef [default: random].
    token: Option<String>,
    /// Create a server token, with which machines join as further servers: they get the keys of the cluster. It is made from
    /// the CA key in the data directory, is not stored, and is valid until it expires.
    #[arg(long, conflicts_with_all = ["token", "usages", "groups", "description"])]
    server: bool,
    /// Lifetime of the token, such as 2h; 0 for a token that never expires [default: 24h, 2h for a server token].
    #[arg(long)]
    ttl: Option<String>,
    /// Usages of the token.
    #[arg(long, value_delimiter = ',', default_value = "signing,authentication", value_parser = ["signing", "authentication"])]
    usages: Vec<String>,
    /// Groups of users who authenticate with the token.
    #[arg(long, value_delimiter = ',', default_value = BOOTSTRAPPERS)]
    groups: Vec<String>,
    /// Description of the token's purpose.
    #[arg(long, default_value = "")]
    description: String,
    /// Print the whole command with which a machine joins; further flags of the server are not in it.
    #[arg(long)]
    print_join_command: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    if let Command::Create(create) = &args.command
        && create.server
        && !create.print_join_command
    {
        println!("{}", server_token(create, &args.admin.data_dir)?);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the async runtime")?;
    runtime.block_on(async {
        let credentials = args.admin.credentials()?;
        let remote =
            Remote::new(&credentials).with_context(|| format!("cannot connect to {}", credentials.server))?;
        let client = Client::new(Arc::new(remote), "corten");
        match args.command {
            Command::Create(create) if create.server => {
                let token = server_token(&create, &args.admin.data_dir)?;
                println!(
                    "corten server --server {} --token {token}",
                    server_url(&client, &credentials).await
                );
                Ok(())
            }
            Command::Create(args) => create(&client, &credentials, &args).await,
            Command::List => list(&client).await,
            Command::Delete { tokens } => delete(&client, &tokens).await,
        }
    })
}

async fn create(client: &Client, credentials: &Credentials, args: &CreateArgs) -> anyhow::Result<()> {
    let token = match &args.token {
        Some(token) => token.clone(),
        None => random()?,
    };
    let invitation = Invitation::parse(&token, &[]).context("invalid token")?;
    let expiration = match ttl(args.ttl.as_deref().unwrap_or(NODE_TTL))? {
        Some(ttl) => Some(Clock::real().now().checked_add(ttl).context("--ttl is too long")?),
        None => None,
    };
    let secret = secret(&invitation, args, expiration);
    let created = client.create(&kinds::SECRETS, &secret).await;
    created.with_context(|| format!("cannot create the token at {}", credentials.server))?;
    node_network::authorize_all_nodes(client)
        .await
        .context("cannot reconcile the role of the node network")?;
    let whole = format!("K10{}::{}", fingerprint(&credentials.ca_pem), invitation.bearer());
    if args.print_join_command {
        println!("corten agent --server {} --token {whole}", server_url(client, credentials).await);
    } else {
        println!("{whole}");
    }
    Ok(())
}

/// A server token of the cluster whose CA key is on this machine.
fn server_token(args: &CreateArgs, data_dir: &Path) -> anyhow::Result<String> {
    let lifetime = ttl(args.ttl.as_deref().unwrap_or(SERVER_TTL))?;
    let lifetime = lifetime.filter(|lifetime| *lifetime <= LONGEST_SERVER_TTL).context(
        "--ttl: a server token yields the keys of the cluster, so it lasts 24h at most; give a shorter time",
    )?;
    let read = |name: &str| {
        let path = data_dir.join("pki").join(name);
        fs::read_to_string(&path).with_context(|| {
            format!(
                "cannot read {}; run this on the machine of a server, with its --data-dir",
                path.display()
            )
        })
    };
    let key = TokenKey::of(&read("ca.key")?);
    let expires = Clock::real().now().checked_add(lifetime).context("--ttl is too long")?;
    Ok(key.issue(&fingerprint(&read("ca.crt")?), expires.as_second())?.reveal())
}

/// The server's URL for other machines.
async fn server_url(client: &Client, credentials: &Credentials) -> String {
    let map = client.get(&kinds::CONFIG_MAPS, &Key::new("kube-public", "cluster-info")).await;
    let text = map.ok().and_then(|map| map.str_at(&["data", "kubeconfig"]).map(str::to_owned));
    let server = text.as_deref().and_then(|text| {
        text.lines().find_map(|line| line.trim().strip_prefix("server: ").map(str::to_owned))
    });
    server.unwrap_or_else(|| credentials.server.clone())
}

fn secret(invitation: &Invitation, args: &CreateArgs, expiration: Option<Timestamp>) -> Value {
    let mut secret = kinds::SECRETS.new_object(NAMESPACE, &format!("{PREFIX}{}", invitation.id()));
    secret.set(&["type"], TYPE);
    secret.set(
        &["stringData"],
        value!({
            "token-id": (invitation.id()), "token-secret": (invitation.secret()),
            "auth-extra-groups": (args.groups.join(",")),
        }),
    );
    if !args.description.is_empty() {
        secret.set(&["stringData", "description"], args.description.as_str());
    }
    if let Some(expiration) = expiration {
        secret.set(&["stringData", "expiration"], time::format(expiration));
    }
    for usage in &args.usages {
        secret.set(&["stringData", &format!("{USAGE}{usage}")], "true");
    }
    secret
}

/// Parses a lifetime; `None` is a token that never expires.
fn ttl(text: &str) -> anyhow::Result<Option<Duration>> {
    let seconds = if text == "0" { Ok(0.0) } else { go_duration(text) };
    let seconds = seconds.map_err(|error| anyhow::anyhow!("--ttl: {error}"))?;
    let ttl = Duration::try_from_secs_f64(seconds).context("--ttl: give a duration such as 24h, or 0")?;
    Ok((!ttl.is_zero()).then_some(ttl))
}

async fn list(client: &Client) -> anyhow::Result<()> {
    let secrets = client
        .read("/api/v1/namespaces/kube-system/secrets?fieldSelector=type%3Dbootstrap.kubernetes.io%2Ftoken");
    let secrets = secrets.await.context("cannot list tokens")?;
    let now = Clock::real().now();
    let mut rows =
        vec![["TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS"].map(str::to_owned)];
    rows.extend(secrets.items_at(&["items"]).iter().map(|secret| row(secret, now)));
    print!("{}", table::aligned(&rows));
    Ok(())
}

fn row(secret: &Value, now: Timestamp) -> [String; 6] {
    let data = |key: &str| {
        let text = STANDARD.decode(secret.str_at(&["data", key]).unwrap_or_default()).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    let or_none = |text: String| if text.is_empty() { "<none>".to_owned() } else { text };
    let expiration = data("expiration");
    let left = match time::parse(&expiration) {
        Ok(at) if at <= now => "<invalid>".to_owned(),
        Ok(at) => table::short(at.duration_since(now).as_secs()),
        Err(_) => "<forever>".to_owned(),
    };
    let usages: Vec<&str> = ["authentication", "signing"]
        .into_iter()
        .filter(|usage| data(&format!("{USAGE}{usage}")) == "true")
        .collect();
    [
        // Only the ID, so that a terminal does not show secrets. Users who may list tokens may read them anyway.
        data("token-id"),
        left,
        if expiration.is_empty() { "<never>".to_owned() } else { expiration },
        or_none(usages.join(",")),
        or_none(data("description")),
        or_none(data("auth-extra-groups")),
    ]
}

async fn delete(client: &Client, tokens: &[String]) -> anyhow::Result<()> {
    for token in tokens {
        let bare = token.rsplit("::").next().unwrap_or(token);
        let id = bare.split('.').next().unwrap_or(bare);
        if id.len() != 6 {
            bail!("{token:?} is neither a token nor a token ID; give one such as abcdef");
        }
        let key = Key::new(NAMESPACE, format!("{PREFIX}{id}"));
        let deleted = client.delete(&kinds::SECRETS, &key, &DeleteOptions::default()).await;
        deleted.with_context(|| format!("cannot delete token {id}"))?;
        println!("bootstrap token {id:?} deleted");
    }
    Ok(())
}

/// A random token.
fn random() -> anyhow::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; 22];
    getrandom::fill(&mut bytes).context("cannot read random numbers")?;
    let text: String = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    Ok(format!("{}.{}", &text[..6], &text[6..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_tokens_are_valid_and_differ() {
        let (one, other) = (random().unwrap(), random().unwrap());
        assert_ne!(one, other);
        assert!(Invitation::parse(&one, &[]).is_ok(), "{one}");
    }

    #[test]
    fn lifetimes_are_parsed_and_printed() {
        assert_eq!(ttl("24h0m0s").unwrap(), Some(Duration::from_secs(86_400)));
        assert_eq!((ttl("0").unwrap(), ttl("0s").unwrap()), (None, None));
        assert!(ttl("soon").is_err());
    }
}
