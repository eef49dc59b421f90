//! The flags of the controllers that issue certificates and tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use corten_auth::authentication::SigningKey;
use corten_controllers::{AuthoritySource, Options, Signer, SigningOptions};
use corten_pki::Authority;

use crate::server::parse_duration;

/// Flags that hold wherever controllers run.
#[derive(clap::Args)]
#[command(next_help_heading = "Certificates and tokens")]
pub(crate) struct CredentialFlags {
    /// Maximum and default lifetime of signed certificates.
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s", value_parser = parse_duration)]
    cluster_signing_duration: Duration,
    /// Time after which an unused legacy service account token is deleted.
    #[arg(long, value_name = "DURATION", default_value = "8760h0m0s", value_parser = parse_duration)]
    legacy_service_account_token_clean_up_period: Duration,
}

impl CredentialFlags {
    pub(crate) fn apply(&self, options: &mut Options) {
        options.signing.duration = self.cluster_signing_duration;
        options.legacy_token_cleaner.clean_up_period = self.legacy_service_account_token_clean_up_period;
    }
}

/// Key files, for controllers that run without the API server of this process.
#[derive(clap::Args)]
#[command(next_help_heading = "Certificates and tokens")]
pub(crate) struct KeyFlags {
    /// CA certificate in PEM that signs certificates.
    #[arg(long, value_name = "FILE")]
    cluster_signing_cert_file: Option<PathBuf>,
    /// Private key of the CA, in PEM.
    #[arg(long, value_name = "FILE")]
    cluster_signing_key_file: Option<PathBuf>,
    /// CA certificate for kubernetes.io/kubelet-serving only; excludes --cluster-signing-cert-file.
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_serving_cert_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_serving_key_file: Option<PathBuf>,
    /// CA certificate for kubernetes.io/kube-apiserver-client-kubelet only; excludes --cluster-signing-cert-file.
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_client_cert_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    cluster_signing_kubelet_client_key_file: Option<PathBuf>,
    /// CA certificate for kubernetes.io/kube-apiserver-client only; excludes --cluster-signing-cert-file.
    #[arg(long, value_name = "FILE")]
    cluster_signing_kube_apiserver_client_cert_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    cluster_signing_kube_apiserver_client_key_file: Option<PathBuf>,
    /// CA certificate for kubernetes.io/legacy-unknown only; excludes --cluster-signing-cert-file.
    #[arg(long, value_name = "FILE")]
    cluster_signing_legacy_unknown_cert_file: Option<PathBuf>,
    #[arg(long, value_name = "FILE")]
    cluster_signing_legacy_unknown_key_file: Option<PathBuf>,
    /// Private key in PEM that signs the service account tokens in Secrets; without one no tokens are issued.
    #[arg(long, value_name = "FILE")]
    service_account_private_key_file: Option<PathBuf>,
}

/// The files of one signer: certificate and key.
type Files<'a> = (Option<&'a Path>, Option<&'a Path>);

impl KeyFlags {
    pub(crate) fn apply(&self, options: &mut Options) -> anyhow::Result<()> {
        options.signing = self.signing()?;
        if let Some(path) = &self.service_account_private_key_file {
            let about = || format!("--service-account-private-key-file {}", path.display());
            let text = std::fs::read_to_string(path).with_context(about)?;
            options.token_key = Some(Arc::new(SigningKey::from_pem(&text).with_context(about)?));
        }
        Ok(())
    }

    fn signing(&self) -> anyhow::Result<SigningOptions> {
        let options = SigningOptions::default();
        let own = [
            (
                Signer::KubeletServing,
                &self.cluster_signing_kubelet_serving_cert_file,
                &self.cluster_signing_kubelet_serving_key_file,
            ),
            (
                Signer::KubeletClient,
                &self.cluster_signing_kubelet_client_cert_file,
                &self.cluster_signing_kubelet_client_key_file,
            ),
            (
                Signer::KubeApiserverClient,
                &self.cluster_signing_kube_apiserver_client_cert_file,
                &self.cluster_signing_kube_apiserver_client_key_file,
            ),
            (
                Signer::LegacyUnknown,
                &self.cluster_signing_legacy_unknown_cert_file,
                &self.cluster_signing_legacy_unknown_key_file,
            ),
        ];
        let any_own = own.iter().any(|(_, cert, key)| cert.is_some() || key.is_some());
        if let (Some(cert), Some(key)) = (&self.cluster_signing_cert_file, &self.cluster_signing_key_file) {
            if any_own {
                bail!("cannot specify default and per controller certs at the same time");
            }
            return Ok(options.with_all(&of_files((Some(cert), Some(key)))?));
        }
        own.into_iter().filter(|(_, cert, key)| cert.is_some() || key.is_some()).try_fold(
            options,
            |options, (signer, cert, key)| {
                Ok(options.with(signer, of_files((cert.as_deref(), key.as_deref()))?))
            },
        )
    }
}

/// A CA that is read again for every signature, so that new files take effect at once.
fn of_files((cert, key): Files<'_>) -> anyhow::Result<AuthoritySource> {
    let (Some(cert), Some(key)) = (cert, key) else {
        bail!("a signer needs both a certificate file and a key file");
    };
    let (cert, key) = (cert.to_owned(), key.to_owned());
    let load = move || Authority::load(&cert, &key).map(Arc::new);
    load().context("cannot read the CA that signs certificates")?;
    Ok(Arc::new(move || load().map_err(|error| error.to_string())))
}

/// The CA of this process' own server.
pub(crate) fn of_authority(authority: Arc<Authority>) -> AuthoritySource {
    Arc::new(move || Ok(authority.clone()))
}
