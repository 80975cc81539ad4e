//! Serves a generated world without an API, to be measured with dnsperf:
//!
//! ```text
//! cargo run --release -p dns --example dns_server -- 127.0.0.1:5300 10000 10 > queries.txt &
//! dnsperf -s 127.0.0.1 -p 5300 -d queries.txt -c 8 -l 10
//! ```
//!
//! Arguments: address, Services, endpoints of each Service. Every tenth Service is headless. A file of
//! A queries for dnsperf goes to the standard output before the first answer is given.

use std::io::{self, BufWriter, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use api::object::{
    Endpoint, EndpointPort, EndpointSlice, ObjectMeta, Protocol, SERVICE_NAME_LABEL, Service, ServicePort,
};
use dns::forward::Forwarder;
use dns::records::{Index, Settings};
use dns::server::{Responder, Server};
use dns::wire::Name;

/// Namespaces that the Services are spread over.
const NAMESPACES: u32 = 100;
/// First cluster IP and first endpoint address.
const CLUSTER_IPS: u32 = u32::from_be_bytes([10, 96, 0, 1]);
const ENDPOINTS: u32 = u32::from_be_bytes([10, 128, 0, 1]);

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let listen: SocketAddr = next("127.0.0.1:5300").parse()?;
    let (services, endpoints): (u32, u32) = (next("10000").parse()?, next("10").parse()?);

    let index = Index::new(Settings::of(Name::from_text("cluster.local")?));
    let mut queries = BufWriter::new(io::stdout());
    for namespace in 0..NAMESPACES {
        index.apply_namespace(&format!("ns-{namespace}"))?;
    }
    for number in 0..services {
        let service = service(number);
        index.apply_service(&service)?;
        index.apply_slice(&slice(&service.metadata, number, endpoints))?;
        writeln!(
            queries,
            "{}.{}.svc.cluster.local A",
            service.metadata.name, service.metadata.namespace
        )?;
    }
    index.set_synced();
    let responder = Arc::new(Responder::new(Arc::new(index), Forwarder::to(Vec::new())));
    let server = Server::start(&[listen], responder)?;
    queries.flush()?;
    eprintln!(
        "serving {services} Services of {endpoints} endpoints on {:?}",
        server.addresses()
    );
    tokio::signal::ctrl_c().await?;
    Ok(())
}

fn service(number: u32) -> Service {
    let mut service = Service::default();
    service.metadata.name = format!("service-{number}");
    service.metadata.namespace = format!("ns-{}", number % NAMESPACES);
    service.spec.cluster_ip = match number % 10 {
        0 => "None".to_owned(),
        _ => Ipv4Addr::from(CLUSTER_IPS + number).to_string(),
    };
    service.spec.ports = vec![ServicePort {
        name: "http".to_owned(),
        port: 80,
        ..ServicePort::default()
    }];
    service
}

fn slice(service: &ObjectMeta, number: u32, endpoints: u32) -> EndpointSlice {
    let mut slice = EndpointSlice::default();
    slice.metadata.name = format!("{}-abcde", service.name);
    slice.metadata.namespace.clone_from(&service.namespace);
    slice
        .metadata
        .labels
        .insert(SERVICE_NAME_LABEL.to_owned(), service.name.clone());
    slice.ports = vec![EndpointPort {
        name: Some("http".to_owned()),
        protocol: Some(Protocol::Tcp),
        port: Some(8080),
        app_protocol: None,
    }];
    let address = |at| Ipv4Addr::from(ENDPOINTS + number * endpoints + at).to_string();
    slice.endpoints = (0..endpoints)
        .map(|at| Endpoint {
            addresses: vec![address(at).into()],
            ..Endpoint::default()
        })
        .collect();
    slice
}
