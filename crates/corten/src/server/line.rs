//! The command line of a server, which a server that joined completes with the cluster's settings.

use std::collections::BTreeSet;

use super::Args;
use crate::server_join::{CommandLine, Flags, Joined};

/// The command line of a server.
pub(crate) struct ServerLine {
    pub(crate) args: Args,
    pub(crate) flags: Flags,
    /// The names of the flags that were given.
    pub(crate) given: BTreeSet<String>,
    /// Parses the command line again, with further arguments behind it.
    pub(crate) again: fn(&[String]) -> anyhow::Result<(Args, Flags)>,
}

impl ServerLine {
    /// Joins the cluster that the flags name. The arguments and flags of a server that joined have the cluster's settings.
    pub(super) async fn join(self) -> anyhow::Result<(Args, Flags, Option<Joined>)> {
        let ServerLine { args, flags, given, again } = self;
        let line = CommandLine { flags: &flags, given: &given };
        let joined = args.join.join(&args.data_dir, args.datastore.is_etcd()?, &line).await?;
        let (args, mut flags) = match &joined {
            Some(joined) => again(&joined.arguments)?,
            None => (args, flags),
        };
        // What `/flagz` shows.
        flags.retain(|(name, _)| name != "token");
        Ok((args, flags, joined))
    }
}
