//! One request on a resource, as the verbs see it: authenticated, authorized, its body read.

use std::sync::Arc;

use bytes::Bytes;
use corten_api::{Status, Str, Value, managed};
use corten_auth::{MASTERS, User};
use corten_base::Clock;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};

use crate::admission::Admission;
use crate::allocation::Allocators;
use crate::authentication::Authentication;
use crate::authorization::Authorizer;
use crate::catalog::{Catalog, Served};
use crate::connect::Kubelets;
use crate::decode::Expected;
use crate::events::EventLeases;
use crate::in_flight::Limits;
use crate::negotiate::{self, View, Wanted};
use crate::request::{Query, ResourcePath};
use crate::resource_metrics::ResourceMetrics;
use crate::respond::TableQuery;
use corten_store::Store;

/// What every verb works with.
pub(crate) struct Backend {
    pub catalog: Catalog,
    pub clock: Clock,
    pub store: Store,
    pub authorizer: Authorizer,
    pub admission: Admission,
    pub event_leases: EventLeases,
    pub allocators: Allocators,
    pub limits: Limits,
    pub authentication: Authentication,
    pub kubelets: Kubelets,
    pub resource_metrics: ResourceMetrics,
}

pub(crate) struct Call {
    pub backend: Arc<Backend>,
    pub served: Arc<Served>,
    pub at: ResourcePath,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub user: Arc<User>,
    pub now: jiff::Timestamp,
    pub warnings: Vec<String>,
}

/// Who the server is when it asks something of itself.
pub(crate) fn itself() -> User {
    User { name: "system:apiserver".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// How the server calls itself, and so who manages what it writes.
pub(crate) const USER_AGENT_OF_SERVER: &str = "kube-apiserver/v1.37.0";

impl Call {
    /// A request of the server to itself; `None` if it does not serve the resource.
    pub(crate) fn internal(
        backend: &Arc<Backend>,
        resource: (&str, &str, &str),
        namespace: &str,
        name: &str,
    ) -> Option<Call> {
        let (group, version, resource) = resource;
        let served = backend.catalog.get(group, version, resource)?;
        let at = ResourcePath {
            group: group.into(),
            version: version.into(),
            namespace: namespace.into(),
            resource: resource.into(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_OF_SERVER));
        Some(Call {
            backend: backend.clone(),
            served,
            at,
            query: Query::default(),
            headers,
            body: Bytes::new(),
            user: Arc::new(itself()),
            now: backend.clock.now(),
            warnings: Vec::new(),
        })
    }

    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected {
            schema: &self.served.schema,
            kind: self.served.kind(),
            api_version: &self.served.api_version,
        }
    }

    /// Fills in what the type's own defaults cannot say. Other served versions get theirs when converted.
    pub(crate) fn default(&self, object: &mut Value) {
        if self.served.is_stored_form {
            (self.served.rules.default)(object);
        }
    }

    pub(crate) fn wanted(&self) -> Result<Wanted, Status> {
        negotiate::wanted(&self.headers, self.query.get("pretty"), false)
    }

    /// The same for what has no columns.
    pub(crate) fn wanted_whole(&self) -> Result<Wanted, Status> {
        negotiate::wanted_whole(&self.headers, self.query.get("pretty"))
    }

    fn wanted_view(&self) -> Option<View> {
        let wanted = |list| negotiate::wanted(&self.headers, None, list).ok();
        wanted(false).or_else(|| wanted(true)).map(|wanted| wanted.view)
    }

    pub(crate) fn table_query(&self) -> Result<TableQuery, Status> {
        // Only a table has use for it, and only a table's client hears of a bad one.
        let clock = &self.backend.clock;
        match self.query.text("includeObject") {
            "" => Ok(TableQuery::new(clock)),
            asked if matches!(self.wanted_view(), Some(View::Table(_))) => TableQuery::parse(clock, asked),
            _ => Ok(TableQuery::new(clock)),
        }
    }

    pub(crate) fn not_found(&self) -> Status {
        Status::not_found(self.served.group(), self.served.name(), &self.at.name)
    }

    pub(crate) fn stale(&self) -> Status {
        Status::stale(self.served.group(), self.served.name(), &self.at.name)
    }

    /// The object is not the one a client means.
    pub(crate) fn wrong_uid(&self, key: &str, asked: &str, found: &str) -> Status {
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {asked}, UID in object meta: {found}"
        );
        Status::conflict(self.served.group(), self.served.name(), &self.at.name, why)
    }

    /// `dryRun=All`, from the query.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        dry_run(self.query.all("dryRun"), options)
    }

    /// Who manages the fields this request writes.
    pub(crate) fn manager(&self) -> Str {
        match self.query.text("fieldManager") {
            "" => {
                let agent = self.headers.get(USER_AGENT).and_then(|v| v.to_str().ok());
                managed::manager_from_user_agent(agent.unwrap_or_default())
            }
            manager => manager.into(),
        }
    }
}

/// Reads the values of a `dryRun` option.
pub(crate) fn dry_run<'a>(values: impl Iterator<Item = &'a str>, options: &str) -> Result<bool, Status> {
    let mut dry = false;
    for value in values {
        match value {
            "All" => dry = true,
            other => {
                let mut errors = corten_api::status::ErrorList::new();
                errors.not_supported("dryRun", &Value::Array(vec![Value::from(other)]), &["All"]);
                return Err(Status::invalid("meta.k8s.io", options, "", &errors));
            }
        }
    }
    Ok(dry)
}
