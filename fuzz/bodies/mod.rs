//! The fuzz bodies: each passes an input to decoders and checks properties that hold for any input. A panic, a failed assertion,
//! a hang and an allocation beyond the allowance are bugs.
//!
//! `cargo xtask check` holds every body against its fuzz target, its corpus and its line in [`BODIES`].

mod aggregation;
mod backups;
mod certificates;
mod cni;
mod configurations;
mod conformed;
mod containers;
mod credentials;
mod cri;
mod custom_resources;
mod dns;
mod envelope;
mod etcd;
mod expressions;
mod fieldsets;
mod grpc;
mod image_documents;
mod image_layers;
mod json;
mod logs;
mod metrics;
mod netlink;
mod objects;
mod pages;
mod patches;
mod protobuf;
mod quantity;
mod requests;
mod schedules;
mod selectors;
mod spdy;
mod store;
mod stored_forms;
mod supervisor;
mod websocket;
mod yaml;

/// A body by the name of its target and corpus.
pub(crate) type Body = (&'static str, fn(&[u8]));

/// Every body there is.
pub(crate) const BODIES: [Body; 35] = [
    ("aggregation", aggregation::check),
    ("backups", backups::check),
    ("certificates", certificates::check),
    ("cni", cni::check),
    ("configurations", configurations::check),
    ("containers", containers::check),
    ("credentials", credentials::check),
    ("cri", cri::check),
    ("custom_resources", custom_resources::check),
    ("dns", dns::check),
    ("envelope", envelope::check),
    ("etcd", etcd::check),
    ("expressions", expressions::check),
    ("fieldsets", fieldsets::check),
    ("grpc", grpc::check),
    ("image_documents", image_documents::check),
    ("image_layers", image_layers::check),
    ("json", json::check),
    ("logs", logs::check),
    ("metrics", metrics::check),
    ("netlink", netlink::check),
    ("objects", objects::check),
    ("pages", pages::check),
    ("patches", patches::check),
    ("protobuf", protobuf::check),
    ("quantity", quantity::check),
    ("requests", requests::check),
    ("schedules", schedules::check),
    ("selectors", selectors::check),
    ("spdy", spdy::check),
    ("store", store::check),
    ("stored_forms", stored_forms::check),
    ("supervisor", supervisor::check),
    ("websocket", websocket::check),
    ("yaml", yaml::check),
];
