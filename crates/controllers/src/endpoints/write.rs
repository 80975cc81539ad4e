//! Execution of writes of Endpoints.

use api::object::{Endpoints, ObjectMeta};
use client::{Client, ClientError};

use super::EndpointsWrite;
use crate::api_requests;

/// The result of a write.
#[derive(Debug)]
pub(crate) enum WriteResult {
    /// The Endpoints after the write.
    Current(Endpoints),
    /// The Endpoints are deleted.
    Deleted(ObjectMeta),
}

/// Executes a write.
pub(crate) async fn execute(client: &Client, write: EndpointsWrite) -> Result<WriteResult, ClientError> {
    match write {
        EndpointsWrite::Create(endpoints) => api_requests::create(client, &endpoints)
            .await
            .map(WriteResult::Current),
        EndpointsWrite::Update(endpoints) => api_requests::replace(client, &endpoints)
            .await
            .map(WriteResult::Current),
        EndpointsWrite::Delete(meta) => {
            api_requests::delete::<Endpoints>(client, &meta).await?;
            Ok(WriteResult::Deleted(meta))
        }
    }
}
