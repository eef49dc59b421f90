//! A request for tests.

use std::sync::Arc;

use corten_api::{Value as Tree, json};
use corten_cel::library::authz::{Authorizer, Decision, ResourceCheck, Subject, Target};

use crate::Request;

pub(crate) fn parse(text: &str) -> Tree {
    json::parse(text.as_bytes()).unwrap()
}

#[derive(Debug)]
struct Gets;

impl Authorizer for Gets {
    fn authorize(&self, request: &corten_cel::library::authz::Request<'_>) -> Decision {
        let allowed = request.verb == "get" && matches!(request.target, Target::Resource(_));
        Decision { allowed, ..Decision::default() }
    }
}

pub(crate) struct Sample {
    pub(crate) object: Option<Tree>,
    pub(crate) old: Option<Tree>,
    pub(crate) namespace: Option<Tree>,
    pub(crate) request: Tree,
    pub(crate) authorizer: (Subject, ResourceCheck),
}

impl Default for Sample {
    fn default() -> Sample {
        let subject = Subject::new(Arc::new(Gets));
        let object = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","labels":{"x":"y"}},"data":{"k":"v"}}"#;
        let request =
            r#"{"operation":"CREATE","name":"a","namespace":"default","userInfo":{"username":"jane"}}"#;
        Sample {
            object: Some(parse(object)),
            old: None,
            namespace: Some(parse(r#"{"metadata":{"name":"default","labels":{"env":"prod"}}}"#)),
            request: parse(request),
            authorizer: (subject.clone(), subject.resource("", "configmaps")),
        }
    }
}

impl Request for Sample {
    fn object(&self) -> Option<&Tree> {
        self.object.as_ref()
    }

    fn old_object(&self) -> Option<&Tree> {
        self.old.as_ref()
    }

    fn namespace_object(&self) -> Option<&Tree> {
        self.namespace.as_ref()
    }

    fn admission_request(&self) -> &Tree {
        &self.request
    }

    fn authorizer(&self) -> (&Subject, &ResourceCheck) {
        (&self.authorizer.0, &self.authorizer.1)
    }
}

/// The type of an object of a built-in kind.
pub(crate) fn schema_of(object: &Tree) -> corten_api::schema::StructRef {
    let (api_version, kind) = (object.str_at(&["apiVersion"]).unwrap(), object.str_at(&["kind"]).unwrap());
    let (group, version) = corten_api::resources::split_api_version(api_version);
    corten_api::resources::schema_of(group, version, kind).unwrap()
}
