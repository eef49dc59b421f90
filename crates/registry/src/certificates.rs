//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
pub(crate) mod clustertrustbundles;
mod pem;
pub(crate) mod podcertificaterequests;
