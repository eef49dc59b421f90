//! The parameters of operations: a table of what each is, and which of them an operation takes.

/// One parameter in a path or a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// `string`, `integer`, `boolean`.
    pub(super) kind: &'static str,
    pub(super) description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    Path,
    Query,
}

impl Place {
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Path => "path",
            Place::Query => "query",
        }
    }
}

impl Parameter {
    /// Whether version 2 writes it once and refers to it. Older clients look for the others in place, to
    /// learn whether the server knows them.
    pub(super) fn shared(&self) -> bool {
        !matches!(self.name, "name" | "dryRun" | "fieldValidation")
    }

    /// Its name among the shared ones.
    pub(super) fn shared_name(&self) -> String {
        format!("{}-{}", self.name, self.place.name())
    }
}

const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Query, kind, description }
}

const fn path(name: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, kind: "string", description }
}

pub(super) const NAME: Parameter = path("name", "name of the object");
pub(super) const NAMESPACE: Parameter = path("namespace", "namespace of the object");
pub(super) const PROXY_PATH: Parameter = path("path", "path of the proxied request");
pub(super) const PRETTY: Parameter = query(
    "pretty",
    "string",
    "Indent the output if 'true'. Browsers and curl get indented output unless told otherwise.",
);

const DRY_RUN: Parameter = query(
    "dryRun",
    "string",
    "Do everything but keep the change. The only valid value is All: run every stage.",
);
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "Name of who makes the change, for field ownership: printable characters, at most 128 of them.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "What to do about unknown and duplicate fields. Ignore: drop them. Warn: drop them and say so in warnings. \
     Strict: refuse the request.",
);
const FORCE: Parameter = query(
    "force",
    "boolean",
    "Take over fields that other managers own. Only for apply requests, which fail on such conflicts otherwise.",
);

pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION, FORCE];

pub(super) const DELETE: &[Parameter] = &[
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "Seconds until the object is deleted; zero is at once. The kind's own default if absent.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Delete an object that cannot be read from storage, without finalizers or preconditions. Dangerous.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "Deprecated: use propagationPolicy. Keep the objects that this one owns.",
    ),
    query(
        "propagationPolicy",
        "string",
        "What becomes of dependents. Orphan: they stay. Background: they are deleted afterwards. Foreground: they \
         are deleted first. Not together with orphanDependents.",
    ),
];

/// What selects the objects of a list.
pub(super) const SELECT: &[Parameter] = &[
    query("continue", "string", "Token from the previous page of a list, to get the next. Not for watches."),
    query("fieldSelector", "string", "Only objects whose fields match this selector."),
    query("labelSelector", "string", "Only objects whose labels match this selector."),
    query(
        "limit",
        "integer",
        "At most this many objects; metadata.continue tells that there are more. Not for watches.",
    ),
    query("resourceVersion", "string", "The version of the data that the answer may come from."),
    query("resourceVersionMatch", "string", "How resourceVersion applies to a list: Exact or NotOlderThan."),
    query(
        "sendInitialEvents",
        "boolean",
        "Begin a watch with the present objects, followed by a bookmark. Needs resourceVersionMatch=NotOlderThan.",
    ),
    query("timeoutSeconds", "integer", "End the call after this time, whatever is going on."),
];

/// What a list or a watch takes besides.
pub(super) const LIST: &[Parameter] = &[
    query(
        "allowWatchBookmarks",
        "boolean",
        "Allow BOOKMARK events in a watch, which tell how far it has come.",
    ),
    query("watch", "boolean", "Stream changes to the selected objects, from resourceVersion on."),
];

/// Parameters of subresources that are not objects.
pub(super) fn of_subresource(name: &str) -> Vec<Parameter> {
    const CONTAINER: Parameter =
        query("container", "string", "The container; may be left out if there is only one.");
    const STREAMS: [Parameter; 4] = [
        query("stderr", "boolean", "Whether to pass on the standard error output."),
        query("stdin", "boolean", "Whether to pass input to the process."),
        query("stdout", "boolean", "Whether to pass on the standard output."),
        query("tty", "boolean", "Whether the process gets a terminal."),
    ];
    let own: &[Parameter] = match name {
        "attach" => &[CONTAINER],
        "exec" => &[
            CONTAINER,
            query("command", "string", "The command, one argument at a time; not run in a shell."),
        ],
        "portforward" => return vec![query("ports", "integer", "The ports to forward, over a web socket.")],
        "proxy" => return vec![query("path", "string", "The path of the proxied request.")],
        "log" => return [&[CONTAINER], LOG].concat(),
        _ => return Vec::new(),
    };
    [own, &STREAMS].concat()
}

const LOG: &[Parameter] = &[
    query("follow", "boolean", "Go on with new lines as they are written."),
    query(
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Do not verify the certificate of the node that the log comes from. What arrives may not be from it.",
    ),
    query("limitBytes", "integer", "Stop after this many bytes."),
    query("previous", "boolean", "The log of the container's previous run."),
    query("sinceSeconds", "integer", "Only lines of the last so many seconds."),
    query("stream", "string", "Which output: All, Stdout or Stderr."),
    query("tailLines", "integer", "Only the last so many lines."),
    query("timestamps", "boolean", "Begin each line with its time."),
];
