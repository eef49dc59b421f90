//! The parameters of operations: a table of all, and those of each operation.

/// One parameter in a path or a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// `string`, `integer`, `boolean`.
    pub(super) kind: &'static str,
    /// The end of its name among the shared parameters of version 2: upstream's hash of the parameter,
    /// which clients may have recorded. Empty if it is not shared.
    hash: &'static str,
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
    /// Its name among the shared ones, if version 2 writes it once and refers to it. Older clients search
    /// the others in place, to learn whether the server supports them.
    pub(super) fn shared_name(&self) -> Option<String> {
        (!self.hash.is_empty()).then(|| format!("{}-{}", self.name, self.hash))
    }
}

/// The names of the two bodies that version 2 writes once: of patches and of deletions.
pub(super) const PATCH_BODY: &str = "body-78PwaGsr";
pub(super) const DELETE_BODY: &str = "body-2Y1dVQaQ";

const fn query(
    name: &'static str,
    kind: &'static str,
    hash: &'static str,
    description: &'static str,
) -> Parameter {
    Parameter { name, place: Place::Query, kind, hash, description }
}

const fn path(name: &'static str, hash: &'static str, description: &'static str) -> Parameter {
    Parameter { name, place: Place::Path, kind: "string", hash, description }
}

pub(super) const NAME: Parameter = path("name", "", "name of the object");
pub(super) const NAMESPACE: Parameter =
    path("namespace", "vgWSWtn3", "namespace of the object: its name is unique in there");
pub(super) const PROXY_PATH: Parameter = path("path", "z6Ciiujn", "path to the resource");
pub(super) const PRETTY: Parameter = query(
    "pretty",
    "string",
    "tJGM1-ng",
    "Indent the output if 'true'. Browsers and curl get indented output by default.",
);

const DRY_RUN: Parameter = query(
    "dryRun",
    "string",
    "",
    "Process the request without persisting it. The only valid value is All: run every stage.",
);
const FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "Qy4HdaTW",
    "Name of the field manager that makes the change: printable characters, at most 128.",
);
const PATCH_FIELD_MANAGER: Parameter = query(
    "fieldManager",
    "string",
    "7c6nTn1T",
    "Name of the field manager that makes the change: printable characters, at most 128. Required for apply \
     requests, optional for other patches.",
);
const FIELD_VALIDATION: Parameter = query(
    "fieldValidation",
    "string",
    "",
    "Handling of unknown and duplicate fields. Ignore: drop them. Warn: drop them with a warning. \
     Strict: refuse the request.",
);
const FORCE: Parameter = query(
    "force",
    "boolean",
    "tOGGb0Yi",
    "Take over fields that other managers own. Only for apply requests, which fail on such conflicts otherwise.",
);
pub(super) const RESOURCE_VERSION: Parameter = query(
    "resourceVersion",
    "string",
    "5WAnf1kx",
    "The resource version of the requested data; see resourceVersionMatch.",
);

pub(super) const WRITE: &[Parameter] = &[DRY_RUN, FIELD_MANAGER, FIELD_VALIDATION];
pub(super) const PATCH: &[Parameter] = &[DRY_RUN, PATCH_FIELD_MANAGER, FIELD_VALIDATION, FORCE];

pub(super) const DELETE: &[Parameter] = &[
    DRY_RUN,
    query(
        "gracePeriodSeconds",
        "integer",
        "-K5HaBOS",
        "Seconds until the object is deleted; zero is at once. The kind's own default if absent.",
    ),
    query(
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "QbNkfIqj",
        "Delete an object that cannot be read from storage, without finalizers or preconditions. Dangerous.",
    ),
    query(
        "orphanDependents",
        "boolean",
        "uRB25kX5",
        "Deprecated: use propagationPolicy. Keep the objects that this one owns.",
    ),
    query(
        "propagationPolicy",
        "string",
        "6jk3prlO",
        "Handling of dependents. Orphan: keep them. Background: delete them afterwards. Foreground: delete them \
         first. Not together with orphanDependents.",
    ),
];

/// The parameters that select the objects of a list.
pub(super) const SELECT: &[Parameter] = &[
    query(
        "continue",
        "string",
        "QfD61s0i",
        "Token from the previous page of a list, to get the next. Not for watches.",
    ),
    query("fieldSelector", "string", "xIcQKXFG", "Only objects whose fields match this selector."),
    query("labelSelector", "string", "5Zw57w4C", "Only objects whose labels match this selector."),
    query(
        "limit",
        "integer",
        "1NfNmdNH",
        "Maximum number of objects; metadata.continue is set if there are more. Not for watches.",
    ),
    RESOURCE_VERSION,
    query(
        "resourceVersionMatch",
        "string",
        "t8XhRHeC",
        "How resourceVersion applies to a list: Exact or NotOlderThan.",
    ),
    query(
        "sendInitialEvents",
        "boolean",
        "rLXlEK_k",
        "Begin a watch with the present objects, followed by a bookmark. Needs resourceVersionMatch=NotOlderThan.",
    ),
    query(
        "shardSelector",
        "string",
        "Kgyki_3_",
        "Only objects in a range of hashes, as in shardRange(object.metadata.uid, '0x0', '0x8000000000000000'). \
         Alpha: needs the ShardedListAndWatch feature.",
    ),
    query("timeoutSeconds", "integer", "yvYezaOC", "Timeout of the call."),
];

/// Further parameters of a list or a watch.
pub(super) const LIST: &[Parameter] = &[
    query(
        "allowWatchBookmarks",
        "boolean",
        "HC2hJt-J",
        "Allow BOOKMARK events in a watch, which carry its current resource version.",
    ),
    query("watch", "boolean", "XNNPZGbK", "Stream changes to the selected objects, from resourceVersion on."),
];

/// Parameters of subresources that are not objects, by the kind of their options.
pub(super) fn of_options(kind: &str) -> &'static [Parameter] {
    OPTIONS.iter().find(|(name, _)| *name == kind).map_or(&[], |(_, parameters)| *parameters)
}

const OPTIONS: &[(&str, &[Parameter])] = &[
    (
        "PodAttachOptions",
        &[
            query("container", "string", "_Q-EJ3nR", "The container; may be left out if there is only one."),
            query("stderr", "boolean", "26jJhFUR", "Stream the standard error output."),
            query("stdin", "boolean", "sEFnN3IS", "Stream input to the process."),
            query("stdout", "boolean", "005YMKE6", "Stream the standard output."),
            query("tty", "boolean", "g7MlET_l", "The process has a terminal."),
        ],
    ),
    (
        "PodExecOptions",
        &[
            query(
                "command",
                "string",
                "Py3eQybp",
                "The command, one argument at a time; not run in a shell.",
            ),
            query("container", "string", "i5dOmRiM", "The container; may be left out if there is only one."),
            query("stderr", "boolean", "W_1TNlWc", "Stream the standard error output."),
            query("stdin", "boolean", "PSzNhyUC", "Stream input to the process."),
            query("stdout", "boolean", "-EZLRwV1", "Stream the standard output."),
            query("tty", "boolean", "s0flW37O", "Allocate a terminal for the process."),
        ],
    ),
    (
        "PodPortForwardOptions",
        &[query("ports", "integer", "91KROJmm", "The ports to forward, over a web socket.")],
    ),
    ("PodProxyOptions", &[query("path", "string", "oPbzgLUj", "The path of the request to the pod.")]),
    ("NodeProxyOptions", &[query("path", "string", "rFDtV0x9", "The path of the request to the node.")]),
    (
        "ServiceProxyOptions",
        &[query("path", "string", "QCf0eosM", "The path of the request to the service, with its query.")],
    ),
];

/// Parameters of a pod's log.
pub(super) const LOG: &[Parameter] = &[
    query("container", "string", "1GeXxFDC", "The container; may be left out if there is only one."),
    query("follow", "boolean", "9OIXh_2R", "Stream new lines as they are written."),
    query(
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "gM00jVbe",
        "Do not verify the certificate of the node that serves the log. The log may then come from another machine.",
    ),
    query("limitBytes", "integer", "zwd1RXuc", "Stop after this many bytes."),
    query("previous", "boolean", "1jxDPu3y", "The log of the container's previous run."),
    query("sinceSeconds", "integer", "vE2NLdnP", "Only lines of this many last seconds."),
    query("stream", "string", "l-48cgXv", "Which output: All, Stdout or Stderr."),
    query("tailLines", "integer", "9xQLWHMV", "Only this many last lines."),
    query("timestamps", "boolean", "c17fW1w_", "Begin each line with its time."),
];
