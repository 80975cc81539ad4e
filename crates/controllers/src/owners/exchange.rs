//! What is read and written at the server of an owner and its objects, and the answers.

use api::object::{ObjectMeta, Resource};
use client::{Client, ClientError, MERGE_PATCH};
use http::Method;
use serde_json::{Value, json};

use crate::owned::{Claim, read_selector};
use crate::write::{Listed, decode, list, path_of, read};

/// What the server said of an owner and its objects.
#[derive(Debug)]
pub(crate) struct Answer<O, T> {
    /// The owner as the server has it now, if it was read or written.
    pub(crate) owner: Option<Box<O>>,
    /// Whether it is gone.
    pub(crate) is_gone: bool,
    /// All objects that its selector chooses, if they were read.
    pub(crate) listed: Option<Listed<T>>,
    /// Objects as the server has them now.
    pub(crate) objects: Vec<T>,
    /// Objects that are gone.
    pub(crate) gone: Vec<ObjectMeta>,
}

impl<O, T> Default for Answer<O, T> {
    fn default() -> Self {
        Self {
            owner: None,
            is_gone: false,
            listed: None,
            objects: Vec::new(),
            gone: Vec::new(),
        }
    }
}

/// An owner and the objects that its selector chooses, as the server has them; `None` if it is gone.
pub(crate) async fn read_anew<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    selector_of: fn(&O) -> &Value,
) -> Result<Option<(O, Listed<T>)>, ClientError> {
    let meta = owner.metadata();
    let now = read::<O>(client, &meta.key()).await?;
    let Some(now) = now.filter(|now| now.metadata().uid == meta.uid) else {
        return Ok(None);
    };
    let selector = read_selector(selector_of(&now)).map(|selector| selector.to_string());
    let objects = list::<T>(client, &meta.namespace, &selector.unwrap_or_default()).await?;
    Ok(Some((now, objects)))
}

/// Writes claims of `owner`. Before anything is taken the server is asked whether it is still there: what nobody owns
/// must not get an owner that is gone, or that is being deleted. Somebody else's write since an object was read is a
/// conflict.
pub(crate) async fn write_claims<O: Resource, T: Resource>(
    client: &Client,
    owner: &O,
    claims: Vec<Claim>,
) -> Result<Answer<O, T>, ClientError> {
    let mut answer = Answer::default();
    if claims.iter().any(|claim| claim.is_adoption) {
        let meta = owner.metadata();
        let now = read::<O>(client, &meta.key()).await?;
        let now = now.filter(|now| now.metadata().uid == meta.uid);
        let is_ending = |now: &O| now.metadata().deletion_timestamp.is_some();
        answer.is_gone = now.is_none();
        answer.owner = now.filter(is_ending).map(Box::new);
        if answer.is_gone || answer.owner.is_some() {
            return Ok(answer);
        }
    }
    for claim in claims {
        match write_claim(client, &claim).await? {
            Some(object) => answer.objects.push(object),
            None => answer.gone.push(claim.meta),
        }
    }
    Ok(answer)
}

/// Writes a claim; returns the object as the server has it now, `None` if it is gone.
async fn write_claim<T: Resource>(client: &Client, claim: &Claim) -> Result<Option<T>, ClientError> {
    let Claim { meta, owners, .. } = claim;
    let path = path_of::<T>(&meta.key());
    let owners = match owners.is_empty() {
        true => Value::Null,
        false => json!(owners),
    };
    let patch = json!({"metadata": {
        "uid": meta.uid,
        "resourceVersion": meta.resource_version,
        "ownerReferences": owners,
    }});
    match client
        .request(Method::PATCH, &path, MERGE_PATCH, Some(&patch))
        .await
    {
        Ok(answer) => decode(path, answer).map(Some),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
