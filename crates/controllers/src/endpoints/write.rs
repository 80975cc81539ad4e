//! Carrying out writes on Endpoints.

use api::object::{Endpoints, ObjectMeta};
use client::{Client, ClientError};

use super::EndpointsWrite;
use crate::write;

/// What a write made of Endpoints.
#[derive(Debug)]
pub(crate) enum Written {
    /// The server has these now.
    Now(Endpoints),
    /// These are gone.
    Gone(ObjectMeta),
}

/// Makes the write.
pub(crate) async fn carry_out(client: &Client, write: EndpointsWrite) -> Result<Written, ClientError> {
    match write {
        EndpointsWrite::Create(endpoints) => write::create(client, &endpoints).await.map(Written::Now),
        EndpointsWrite::Update(endpoints) => write::replace(client, &endpoints).await.map(Written::Now),
        EndpointsWrite::Delete(meta) => {
            write::delete::<Endpoints>(client, &meta).await?;
            Ok(Written::Gone(meta))
        }
    }
}
