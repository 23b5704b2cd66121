// SPDX-License-Identifier: Apache-2.0
//! Who may call: mutual TLS with certificates from a folder, read again whenever they change there.
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// The name a client's certificate must carry.
pub const OPERATOR_NAME: &str = "operator.spate.dev";
/// What the folder holds.
const FILES: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];

/// Why the certificates cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct TlsError {
    path: String,
    problem: String,
}

/// The certificates of a folder.
pub struct Certificates {
    folder: PathBuf,
    current: Mutex<([u8; 32], Arc<ServerConfig>)>,
}

impl Certificates {
    /// Reads ca.crt, tls.crt and tls.key.
    pub fn open(folder: &Path) -> Result<Self, TlsError> {
        let files = read(folder)?;
        let config = config(folder, &files)?;
        Ok(Self { folder: folder.into(), current: Mutex::new((digest(&files), config)) })
    }

    /// What connections from now on use. Files that are broken meanwhile are reported in the log, and the last good ones stay. They are
    /// read on another thread: a volume may be slow, and others wait for control meanwhile.
    pub async fn current(self: &Arc<Self>) -> Arc<ServerConfig> {
        let this = self.clone();
        match tokio::task::spawn_blocking(move || this.reread()).await {
            Ok(config) => config,
            Err(error) => {
                tracing::warn!(%error, "the certificates cannot be read; the old ones stay");
                self.current.lock().unwrap_or_else(|e| e.into_inner()).1.clone()
            }
        }
    }

    fn reread(&self) -> Arc<ServerConfig> {
        let mut current = self.current.lock().unwrap_or_else(|e| e.into_inner());
        match read(&self.folder) {
            Ok(files) if digest(&files) != current.0 => match config(&self.folder, &files) {
                Ok(config) => {
                    tracing::info!("certificates changed: new connections use the new ones");
                    *current = (digest(&files), config);
                }
                Err(error) => tracing::warn!(%error, "the new certificates cannot be used; the old ones stay"),
            },
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, "the certificates cannot be read; the old ones stay"),
        }
        current.1.clone()
    }
}

fn read(folder: &Path) -> Result<[Vec<u8>; 3], TlsError> {
    let file = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|e| TlsError { path: path.display().to_string(), problem: e.to_string() })
    };
    let [ca, certificate, key] = FILES;
    Ok([file(ca)?, file(certificate)?, file(key)?])
}

fn digest(files: &[Vec<u8>; 3]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for file in files {
        hash.update((file.len() as u64).to_be_bytes());
        hash.update(file);
    }
    hash.finalize().into()
}

fn config(folder: &Path, [ca, certificate, key]: &[Vec<u8>; 3]) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong =
        |index: usize, problem: String| TlsError { path: folder.join(FILES[index]).display().to_string(), problem };
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(ca) {
        let root = root.map_err(|e| wrong(0, format!("is no PEM certificate: {e}")))?;
        roots.add(root).map_err(|e| wrong(0, e.to_string()))?;
    }
    if roots.is_empty() {
        return Err(wrong(0, "holds no certificate".into()));
    }
    let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong(1, format!("is no PEM certificate: {e}")))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| wrong(2, format!("is no PEM private key: {e}")))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| wrong(0, e.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|e| wrong(1, e.to_string()))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(|e| wrong(1, e.to_string()))?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Whether a client's certificate, whose chain is verified, is the operator's: by a DNS name of it.
pub fn is_operator(certificate: &CertificateDer<'_>) -> bool {
    let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
    certificate.subject_alternative_name().ok().flatten().is_some_and(|names| {
        names
            .value
            .general_names
            .iter()
            .any(|name| matches!(name, GeneralName::DNSName(name) if *name == OPERATOR_NAME))
    })
}
