// SPDX-License-Identifier: Apache-2.0
//! Who may connect over TCP: holders of a certificate for operator.spate.dev from the folder's authority, also after it
//! was replaced; nobody else.
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use spate_engine::control::listen::{self, Address};
use spate_engine::control::tls::{Certificates, OPERATOR_NAME};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_stream::StreamExt;

const SERVER_NAME: &str = "lab.default.engine.spate.dev";

/// A certificate authority of the test.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for a name, and its key.
    fn issue(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Puts what an engine is given into its folder.
    fn equip(&self, folder: &Path) {
        let (certificate, key) = self.issue(SERVER_NAME);
        for (file, text) in [("ca.crt", &self.pem), ("tls.crt", &certificate), ("tls.key", &key)] {
            std::fs::write(folder.join(file), text).unwrap();
        }
    }
}

/// A client that trusts `server` and shows a certificate of `own` for a name, if any.
fn client(server: &Authority, own: Option<(&Authority, &str)>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(server.pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots);
    match own {
        None => config.with_no_client_auth(),
        Some((authority, name)) => {
            let (certificate, key) = authority.issue(name);
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap()).unwrap()
        }
    }
}

#[tokio::test]
async fn only_the_operator_of_the_present_authority_gets_in() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (Authority::new("old"), Authority::new("new"));
    old.equip(folder.path());
    let certificates = Arc::new(Certificates::open(folder.path()).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let mut connections = listen::authorised(listener, certificates);
    let (long, short) = (Duration::from_secs(10), Duration::from_millis(300));
    let mut gets_in = async |config: ClientConfig, within: Duration| {
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from(SERVER_NAME).unwrap();
        // TLS 1.3: a client may take a refused handshake for a good one until it reads; the server's word counts.
        let _connection = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        tokio::time::timeout(within, connections.next()).await.is_ok()
    };

    assert!(gets_in(client(&old, Some((&old, OPERATOR_NAME))), long).await, "the operator");
    assert!(!gets_in(client(&old, None), short).await, "nobody");
    assert!(!gets_in(client(&old, Some((&old, "engine.spate.dev"))), short).await, "another name");
    assert!(!gets_in(client(&old, Some((&new, OPERATOR_NAME))), short).await, "another authority");

    new.equip(folder.path());
    assert!(gets_in(client(&new, Some((&new, OPERATOR_NAME))), long).await, "the operator, after a rotation");
    assert!(!gets_in(client(&new, Some((&old, OPERATOR_NAME))), short).await, "the old authority, after a rotation");

    std::fs::write(folder.path().join("tls.key"), "broken").unwrap();
    assert!(gets_in(client(&new, Some((&new, OPERATOR_NAME))), long).await, "the operator, while new files are broken");
}

#[test]
fn broken_folders_are_reported_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new("ca");
    for (file, text) in [("tls.key", "no key"), ("tls.crt", ""), ("ca.crt", "")] {
        authority.equip(folder.path());
        std::fs::write(folder.path().join(file), text).unwrap();
        let error = Certificates::open(folder.path()).err().expect(file).to_string();
        assert!(error.contains(file), "{file}: {error}");
    }
}

#[test]
fn addresses_are_tcp_or_unix() {
    assert_eq!("0.0.0.0:7470".parse(), Ok(Address::Tcp("0.0.0.0:7470".parse().unwrap())));
    assert_eq!("unix:/run/spate.sock".parse(), Ok(Address::Unix("/run/spate.sock".into())));
    for wrong in ["unix:", "7470", "localhost"] {
        assert!(wrong.parse::<Address>().is_err(), "{wrong}");
    }
}
