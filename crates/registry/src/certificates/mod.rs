//! `certificates.k8s.io`.

pub(crate) mod certificatesigningrequests;
pub(crate) mod clustertrustbundles;
pub(crate) mod podcertificaterequests;
