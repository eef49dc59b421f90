//! The values that expressions of match conditions and policies see: the request, its objects in one version, and the
//! permissions of its user.

use std::fmt;
use std::sync::{Arc, OnceLock};

use corten_api::selector::{FieldSelector, LabelSelector};
use corten_api::{Status, Value};
use corten_auth::{Attributes as Access, Decision, User};
use corten_cel::library::authz::{self, Authorizer, ResourceCheck, Subject, Target as Check};
use corten_policies::Request;

use super::matching::Target;
use super::versioned::Shown;
use super::{Attributes, lookup};
use crate::call::Backend;

/// A request in the version of a target. Values are made when an expression first reads them.
pub(super) struct Evaluated<'a> {
    attributes: &'a Attributes<'a>,
    shown: Shown,
    request: OnceLock<Value>,
    namespace: OnceLock<Option<Value>>,
    authorizer: OnceLock<(Subject, ResourceCheck)>,
}

impl<'a> Evaluated<'a> {
    /// Converts the objects of a request to the version of a target.
    pub(super) async fn new(
        attributes: &'a Attributes<'a>,
        target: Target,
        object: Option<&Value>,
    ) -> Result<Evaluated<'a>, Status> {
        let shown = Shown::new(attributes, target, object).await?;
        Ok(Evaluated {
            attributes,
            shown,
            request: OnceLock::new(),
            namespace: OnceLock::new(),
            authorizer: OnceLock::new(),
        })
    }

    /// The resource and kind in which the request is seen.
    pub(super) fn target(&self) -> &Target {
        &self.shown.target
    }

    /// The object in the version of the target.
    pub(super) fn into_object(self) -> Option<Value> {
        self.shown.object
    }

    /// Replaces the object, as a mutation changed it.
    pub(super) fn set_object(&mut self, object: Value) {
        self.shown.object = Some(object);
        // A create may have no name in its request but that of the object.
        self.request = OnceLock::new();
    }
}

impl Request for Evaluated<'_> {
    fn object(&self) -> Option<&Value> {
        self.shown.object.as_ref()
    }

    fn old_object(&self) -> Option<&Value> {
        self.shown.old.as_ref()
    }

    fn admission_request(&self) -> &Value {
        self.request.get_or_init(|| {
            let mut request =
                self.attributes.admission_request(&self.shown.target, self.shown.object.as_ref());
            let options = self.attributes.options();
            if !options.is_null() {
                request.insert("options", options);
            }
            Value::Object(request)
        })
    }

    fn namespace_object(&self) -> Option<&Value> {
        let namespace = self.namespace.get_or_init(|| {
            let name = self.attributes.namespace_of_object()?;
            let mut namespace = lookup::namespace(self.attributes.backend(), name)?.parsed().clone();
            for field in ["managedFields", "ownerReferences", "selfLink"] {
                namespace.remove(&["metadata", field]);
            }
            // Types that upstream's server passes on have no kind.
            for field in ["kind", "apiVersion"] {
                namespace.remove(&[field]);
            }
            Some(namespace)
        });
        namespace.as_ref()
    }

    fn authorizer(&self) -> (&Subject, &ResourceCheck) {
        let (subject, check) = self.authorizer.get_or_init(|| {
            let call = self.attributes.call;
            let permissions = Permissions { backend: call.backend.clone(), user: call.user.clone() };
            let subject = Subject::new(Arc::new(permissions));
            let (group, resource) = self.attributes.resource();
            let mut check = subject.clone().resource(group, resource);
            let object = self.shown.object.as_ref();
            self.attributes.subresource.clone_into(&mut check.subresource);
            self.attributes.request_namespace(object).clone_into(&mut check.namespace);
            self.attributes.request_name(object).clone_into(&mut check.name);
            (subject, check)
        });
        (subject, check)
    }
}

/// The permissions of a request's user.
struct Permissions {
    backend: Arc<Backend>,
    user: Arc<User>,
}

impl fmt::Debug for Permissions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permissions").field("user", &self.user.name).finish_non_exhaustive()
    }
}

impl Authorizer for Permissions {
    fn authorize(&self, request: &authz::Request<'_>) -> authz::Decision {
        let account = request.service_account.map(|(namespace, name)| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            groups: vec![
                "system:serviceaccounts".to_owned(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".to_owned(),
            ],
            ..User::default()
        });
        let user = account.as_ref().unwrap_or(&self.user);
        let decision = match request.target {
            Check::Path(path) => {
                let asked = Access { path: Some(path), ..Access::resource(user, request.verb, "", "") };
                self.backend.authorizer.authorize(&asked)
            }
            Check::Resource(check) => {
                let fields = FieldSelector::parse(&check.field_selector).ok();
                let labels = LabelSelector::parse(&check.label_selector).ok();
                let asked = Access {
                    namespace: &check.namespace,
                    subresource: &check.subresource,
                    name: &check.name,
                    field_selector: fields.as_ref().filter(|_| !check.field_selector.is_empty()),
                    label_selector: labels.as_ref().filter(|_| !check.label_selector.is_empty()),
                    ..Access::resource(user, request.verb, &check.group, &check.resource)
                };
                self.backend.authorizer.authorize(&asked)
            }
        };
        let (allowed, reason) = match decision {
            Decision::Allow(reason) => (true, reason),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => (false, reason),
        };
        authz::Decision { allowed, reason, error: None }
    }
}
