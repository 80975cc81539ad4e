//! Carrying out writes on Endpoints.

use api::object::{Endpoints, ObjectKey};
use client::{Client, ClientError};

use super::EndpointsWrite;
use crate::write;

/// Makes the write; returns the Endpoints as the server has them now, `None` if they are gone.
pub(crate) async fn carry_out(
    client: &Client,
    key: &ObjectKey,
    write: EndpointsWrite,
) -> Result<Option<Endpoints>, ClientError> {
    match write {
        EndpointsWrite::Create(endpoints) => write::create(client, &endpoints).await.map(Some),
        EndpointsWrite::Update(endpoints) => write::replace(client, &endpoints).await.map(Some),
        EndpointsWrite::Delete { uid } => {
            write::delete::<Endpoints>(client, key, &uid).await?;
            Ok(None)
        }
    }
}
