//! The API of `corten kubelet`: listeners, serving certificate, authentication and authorization, as configured.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use corten_kubelet::configuration::Configuration;
use corten_kubelet::server::{Options, Trust};
use corten_pki::{IssuedCert, Sans};

use super::Args;

pub(super) fn options(
    args: &Args,
    configuration: &Configuration,
    name: &str,
    addresses: &[IpAddr],
) -> anyhow::Result<Options> {
    let text = |path: &str| configuration.text(path);
    let client_ca_pem = match text("authentication.x509.clientCAFile") {
        "" => String::new(),
        file => std::fs::read_to_string(file).with_context(|| {
            format!("authentication.x509.clientCAFile (--client-ca-file): reading {file}")
        })?,
    };
    let own = address(configuration, "address")?;
    let port = |path: &str| u16::try_from(configuration.int(path)).unwrap_or_default();
    let at = |address: IpAddr, port: u16| (port != 0).then(|| SocketAddr::new(address, port));
    Ok(Options {
        address: SocketAddr::new(own, port("port")),
        certificate: certificate(args, configuration, name, addresses)?,
        client_ca_pem,
        trust: trust(configuration),
        health: at(address(configuration, "healthzBindAddress")?, port("healthzPort")),
        read_only: at(own, port("readOnlyPort")),
    })
}

fn address(configuration: &Configuration, path: &str) -> anyhow::Result<IpAddr> {
    let text = configuration.text(path);
    text.parse().with_context(|| format!("{path}: {text:?} is not an IP address"))
}

fn trust(configuration: &Configuration) -> Trust {
    let period = |path: &str| configuration.duration(path).unwrap_or_default();
    Trust {
        anonymous: configuration.bool("authentication.anonymous.enabled"),
        tokens: configuration
            .bool("authentication.webhook.enabled")
            .then(|| period("authentication.webhook.cacheTTL")),
        reviews: configuration.text("authorization.mode") != "AlwaysAllow",
        consent: period("authorization.webhook.cacheAuthorizedTTL"),
        refusal: period("authorization.webhook.cacheUnauthorizedTTL"),
    }
}

/// The configured certificate, or a self-signed one that is created once.
fn certificate(
    args: &Args,
    configuration: &Configuration,
    name: &str,
    addresses: &[IpAddr],
) -> anyhow::Result<IssuedCert> {
    let read = |file: &Path| {
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
    };
    let named = (configuration.text("tlsCertFile"), configuration.text("tlsPrivateKeyFile"));
    if let (cert, key) = named
        && !cert.is_empty()
        && !key.is_empty()
    {
        return Ok(IssuedCert { cert_pem: read(Path::new(cert))?, key_pem: read(Path::new(key))? });
    }
    let (cert, key) = (args.cert_dir.join("kubelet.crt"), args.cert_dir.join("kubelet.key"));
    if cert.exists() && key.exists() {
        return Ok(IssuedCert { cert_pem: read(&cert)?, key_pem: read(&key)? });
    }
    let sans = Sans::default().with_host(name).context("invalid node name")?;
    let sans = addresses.iter().fold(sans, |sans, address| sans.with_address(*address));
    let made = IssuedCert::self_signed_for(name, &sans, SystemTime::now())
        .context("cannot create a self-signed certificate")?;
    made.write(&cert, &key).with_context(|| format!("cannot write {}", args.cert_dir.display()))?;
    Ok(made)
}
