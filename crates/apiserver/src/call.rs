//! One request on a resource, as the verbs get it: authenticated, authorized, its body read.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::schema::{Struct, StructRef};
use corten_api::{Status, Str, Value, managed};
use corten_auth::{MASTERS, User};
use corten_base::Clock;
use http::header::USER_AGENT;
use http::{HeaderMap, HeaderValue};

use crate::admission::{Admission, AuditAnnotations};
use crate::aggregation::Aggregation;
use crate::allocation::Allocators;
use crate::authentication::Authentication;
use crate::authorization::Authorizer;
use crate::catalog::{Catalog, Served};
use crate::connect::Kubelets;
use crate::decode::Expected;
use crate::event_leases::EventLeases;
use crate::in_flight::Limits;
use crate::negotiate::{self, Forms, View, Wanted};
use crate::request::{Query, ResourcePath};
use crate::resource_metrics::ResourceMetrics;
use crate::respond::{self, TableQuery};
use crate::verbs::prepare;
use corten_store::Store;

/// The server's state that the verbs use.
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
    pub aggregation: Aggregation,
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
    /// The time by which the request must be answered; `None` for long-running requests and those of the server itself.
    pub deadline: Option<tokio::time::Instant>,
    pub warnings: Vec<String>,
    /// The annotations of the request's audit event.
    pub audit_annotations: AuditAnnotations,
    /// The type of the objects, once it is needed: that of a custom resource may have to be compiled.
    pub schema: OnceLock<StructRef>,
}

/// The user of the server's own requests.
pub(crate) fn server_user() -> User {
    User { name: "system:apiserver".into(), groups: vec![MASTERS.into()], ..User::default() }
}

/// The server's own user agent, which names the manager of the fields that it writes.
pub(crate) const USER_AGENT_OF_SERVER: &str = "kube-apiserver/v1.37.0";

impl Call {
    /// A request of the server itself; `None` if the resource is not served.
    pub(crate) fn internal(
        backend: &Arc<Backend>,
        resource: (&str, &str, &str),
        namespace: &str,
        name: &str,
    ) -> Option<Call> {
        let (group, version, resource) = resource;
        let served = backend.catalog.get(group, version, resource)?;
        Some(Call::for_server(backend, served, namespace, name))
    }

    /// A request of the server itself on a resource.
    pub(crate) fn for_server(
        backend: &Arc<Backend>,
        served: Arc<Served>,
        namespace: &str,
        name: &str,
    ) -> Call {
        let at = ResourcePath {
            group: served.resource.group.clone(),
            version: served.resource.version.clone(),
            namespace: namespace.into(),
            resource: served.resource.name.clone(),
            name: name.into(),
            ..ResourcePath::default()
        };
        let mut headers = HeaderMap::new();
        headers.insert(USER_AGENT, HeaderValue::from_static(USER_AGENT_OF_SERVER));
        Call {
            backend: backend.clone(),
            served,
            at,
            query: Query::default(),
            headers,
            body: Bytes::new(),
            user: Arc::new(server_user()),
            now: backend.clock.now(),
            deadline: None,
            warnings: Vec::new(),
            audit_annotations: AuditAnnotations::default(),
            schema: OnceLock::new(),
        }
    }

    /// The type of the resource's objects.
    pub(crate) fn schema(&self) -> &Struct {
        self.schema.get_or_init(|| self.served.schema())
    }

    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected {
            schema: self.schema(),
            custom: self.served.custom().map(|version| &**version),
            kind: self.served.kind(),
            api_version: &self.served.api_version,
        }
    }

    /// Sets the defaults that the schema cannot express. Other served versions get theirs by conversion.
    pub(crate) fn default(&self, object: &mut Value) {
        (self.served.rules.default_times)(object, self.now);
        if self.served.is_stored_form {
            (self.served.rules.default)(object);
        } else if self.served.group() == "autoscaling" {
            self.default_autoscaler(object);
        } else if self.served.custom().is_none() && self.served.group() != "events.k8s.io" {
            self.default_as_stored(object);
        }
    }

    /// Sets the defaults of an object in a version that can hold all fields of the stored form: those of the stored form.
    fn default_as_stored(&self, object: &mut Value) {
        let mut whole = object.clone();
        let stored = prepare::to_stored(self, &mut whole);
        if stored.and_then(|()| respond::to_served(&self.served, &mut whole)).is_ok() {
            *object = whole;
        }
    }

    /// Sets the defaults of an autoscaler of the other version: those of the stored form, seen in this one. Upstream
    /// sets them before it records owners.
    fn default_autoscaler(&self, object: &mut Value) {
        const DEFAULTED: [&[&str]; 2] =
            [&["spec", "minReplicas"], &["spec", "targetCPUUtilizationPercentage"]];
        if DEFAULTED.iter().all(|path| object.at(path).is_some()) {
            return;
        }
        let mut whole = object.clone();
        if prepare::to_stored(self, &mut whole)
            .and_then(|()| respond::to_served(&self.served, &mut whole))
            .is_err()
        {
            return;
        }
        for path in DEFAULTED {
            if object.at(path).is_none()
                && let Some(value) = whole.at(path)
            {
                object.set(path, value.clone());
            }
        }
    }

    /// The forms of the resource's objects.
    pub(crate) fn forms(&self) -> Forms {
        // A custom resource has no protobuf form; its `Scale` has.
        let protobuf = self.served.custom().is_none() || self.at.subresource == "scale";
        let table = match &*self.at.subresource {
            "" | "scale" => true,
            "status" => self.served.rules.status_table,
            // Of the others, those that read or write the object have none.
            other => !matches!(other, "approval" | "ephemeralcontainers" | "resize"),
        };
        Forms { protobuf, table }
    }

    pub(crate) fn wanted(&self) -> Result<Wanted, Status> {
        negotiate::wanted(&self.headers, self.query.get("pretty"), false, self.forms())
    }

    /// The same for a list.
    pub(crate) fn wanted_list(&self) -> Result<Wanted, Status> {
        negotiate::wanted(&self.headers, self.query.get("pretty"), true, self.forms())
    }

    /// The same for an object without a table form.
    pub(crate) fn wanted_whole(&self) -> Result<Wanted, Status> {
        let forms = Forms { table: false, ..self.forms() };
        negotiate::wanted(&self.headers, self.query.get("pretty"), false, forms)
    }

    fn wanted_view(&self) -> Option<View> {
        let wanted = |list| negotiate::wanted(&self.headers, None, list, self.forms()).ok();
        wanted(false).or_else(|| wanted(true)).map(|wanted| wanted.view)
    }

    pub(crate) fn table_query(&self) -> Result<TableQuery, Status> {
        // Only tables use it: an invalid value is an error only if the client accepts a table.
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

    /// The conflict of a uid precondition.
    pub(crate) fn wrong_uid(&self, key: &str, asked: &str, found: &str) -> Status {
        let key = self.reported_key(key);
        let why = format!(
            "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition \
             failed: UID in precondition: {asked}, UID in object meta: {found}"
        );
        Status::conflict(self.served.group(), self.served.name(), &self.at.name, why)
    }

    /// The store's key of an object in errors: a dry run does not reach the layer that adds the prefix.
    pub(crate) fn reported_key<'k>(&self, key: &'k str) -> &'k str {
        let is_dry_run = self.query.all("dryRun").any(|stage| stage == "All");
        if is_dry_run { key.strip_prefix("/registry").unwrap_or(key) } else { key }
    }

    /// `dryRun=All`, from the query.
    pub(crate) fn dry_run(&self, options: &str) -> Result<bool, Status> {
        dry_run(self.query.all("dryRun"), options)
    }

    /// The manager of the fields that this request writes.
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

/// Parses the values of a `dryRun` option.
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
