//! Certificate authorities, leaf certificates and kubeconfigs.
