//! Makes an uploaded object visible under its name, on the condition that no unexpected object has
//! this name. If the store's response is lost, this module examines the object that now has the
//! name. That object shows whether the request succeeded.

use super::super::origin::version_of;
use super::super::request_options::RequestOptions;
use super::super::store_error::StoreError;
use super::UploadContext;
use crate::fault::Fault;
use crate::settings::Scope;
use crate::version::GENERATION;
use bytes::Bytes;
use md5::{Digest, Md5};
use object_store::multipart::PartId;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion};
use reqwest::header::{HeaderValue, IF_MATCH, IF_NONE_MATCH};
use std::sync::PoisonError;
use tensorferry_core::context::remote::Condition;
use tensorferry_sdk::{Error, Result, hex};

/// The last step of an upload, which makes the object visible.
pub(super) struct Completion {
    content: UploadContent,
    len: u64,
    /// The tag that S3 will assign to the object.
    tag: Tag,
    condition: Condition,
    /// A note for the user. Set if the store could not check the condition.
    note: Option<String>,
}

enum UploadContent {
    Small(Bytes),
    Parts(Vec<PartId>),
}

/// The known part of the `ETag` that the object will have, without its quotes.
enum Tag {
    Whole(String),
    End(String),
    Unknown,
}

impl Completion {
    pub(super) fn of(sending: &UploadContext, condition: Condition) -> Result<Self> {
        let state = sending.state.lock().unwrap_or_else(PoisonError::into_inner);
        let len = state.parts.len.unwrap_or(0);
        let content = match &state.small {
            Some((bytes, _)) => UploadContent::Small(bytes.clone()),
            None => {
                let parts: Option<Vec<PartId>> = state.sent.values().cloned().collect();
                let parts = parts.filter(|parts| parts.len() == state.parts.count());
                UploadContent::Parts(
                    parts.ok_or_else(|| Error::plugin("the object is not uploaded").file(&*sending.url))?,
                )
            }
        };
        let tag = match (&content, sending.scope) {
            (UploadContent::Small(bytes), Scope::S3) => Tag::Whole(hex(&Md5::digest(bytes))),
            (UploadContent::Parts(parts), Scope::S3) => tag_of(parts),
            _ => Tag::Unknown,
        };
        Ok(Self { content, len, tag, condition, note: None })
    }

    /// Completes the upload. May return a note for the user.
    pub(super) async fn run(mut self, sending: &UploadContext) -> Result<Option<String>> {
        let mut retry_limits = sending.process.client.retry_limits();
        // Whether an earlier attempt may have succeeded although its response was lost.
        let mut is_open = false;
        loop {
            let store_error = match self.attempt(sending).await {
                Ok(()) => return Ok(self.note),
                Err(store_error) => store_error.of_file(&sending.url),
            };
            let is_gone =
                store_error.status() == Some(404) && matches!(self.content, UploadContent::Parts(_));
            let was_open = is_open;
            is_open |= store_error.is_transient() || is_gone;
            if is_open && self.is_visible(sending).await {
                return Ok(self.note);
            }
            match store_error.status() {
                // Azure returns 409 if the blob exists. S3 returns 409 if another process is
                // writing the same key.
                Some(412 | 409)
                    if self.condition != Condition::Any
                        && (store_error.status() == Some(412) || sending.scope == Scope::Azure) =>
                {
                    return Err(self.refused(sending));
                }
                Some(409) if sending.scope == Scope::S3 => {
                    let fault = Fault::transient("another process is writing this object").of(&sending.url);
                    match &self.content {
                        UploadContent::Small(_) => {
                            retry_limits.wait(fault).await.map_err(|fault| fault.error)?;
                        }
                        UploadContent::Parts(_) => return Err(fault.error),
                    }
                }
                // S3 returns 404 if the object that should be replaced no longer exists.
                Some(404)
                    if matches!(
                        (&self.content, &self.condition),
                        (UploadContent::Small(_), Condition::Same(_))
                    ) =>
                {
                    return Err(if store_error.is_of_bucket() {
                        store_error.error()
                    } else {
                        self.refused(sending)
                    });
                }
                Some(501) if self.condition != Condition::Any => self.check_separately(sending).await?,
                // The response to an earlier attempt was lost, and the store may still be
                // processing that attempt.
                _ if is_gone && was_open && !store_error.is_of_bucket() => {
                    let fault = Fault::transient("the outcome of the upload is unknown").of(&sending.url);
                    retry_limits.wait(fault).await.map_err(|fault| fault.error)?;
                }
                _ if is_gone => return Err(sending.error_of(&store_error)),
                _ => retry_limits.wait(store_error.fault()).await.map_err(|fault| fault.error)?,
            }
        }
    }

    async fn attempt(&mut self, sending: &UploadContext) -> Result<(), StoreError> {
        let request_options = RequestOptions { is_tried_once: true, ..RequestOptions::default() };
        if sending.scope == Scope::Gcs && matches!(self.content, UploadContent::Parts(_)) {
            self.check_separately(sending)
                .await
                .map_err(|error| StoreError::from(Fault::permanent(error)))?;
        }
        let done = match &self.content {
            UploadContent::Small(bytes) => {
                let mode = match (&self.condition, sending.scope) {
                    (Condition::Absent, _) => PutMode::Create,
                    (Condition::Same(stamp), Scope::Gcs) => match stamp.tag.strip_prefix(GENERATION) {
                        Some(number) => {
                            PutMode::Update(UpdateVersion { e_tag: None, version: Some(number.into()) })
                        }
                        None => PutMode::Overwrite,
                    },
                    (Condition::Same(stamp), _) => match etag(&stamp.tag) {
                        Some(tag) => {
                            PutMode::Update(UpdateVersion { e_tag: Some(tag.into()), version: None })
                        }
                        None => PutMode::Overwrite,
                    },
                    _ => PutMode::Overwrite,
                };
                let payload = PutPayload::from_bytes(bytes.clone());
                let options = PutOptions { mode, ..PutOptions::default() };
                request_options.of(sending.store.put_opts(&sending.location, payload, options)).await
            }
            UploadContent::Parts(parts) => {
                let condition = match &self.condition {
                    Condition::Absent => Some((IF_NONE_MATCH, HeaderValue::from_static("*"))),
                    Condition::Same(stamp) => {
                        etag(&stamp.tag).and_then(|tag| Some((IF_MATCH, HeaderValue::from_str(tag).ok()?)))
                    }
                    Condition::Any => None,
                };
                let azure =
                    sending.store.azure_credential().await.map_err(|error| sending.store_error(&error))?;
                let request_options = RequestOptions { condition, azure, ..request_options };
                let id = sending.id.lock().await.clone().unwrap_or_default();
                request_options
                    .of(sending.store.complete_multipart(&sending.location, &id, parts.clone()))
                    .await
            }
        };
        done.map(drop).map_err(|error| sending.store_error(&error))
    }

    /// Checks the condition with a separate request and records a note. The separate request is
    /// necessary if the store does not support conditions for the completing request.
    async fn check_separately(&mut self, sending: &UploadContext) -> Result<()> {
        if self.condition == Condition::Any {
            return Ok(());
        }
        let found = match sending.store.head(&sending.location).await {
            Ok(meta) => Some(version_of(&meta).stamp()),
            Err(error) => match sending.store_error(&error) {
                store_error if store_error.status() == Some(404) => None,
                store_error => return Err(store_error.error()),
            },
        };
        let outcome = match (&self.condition, &found) {
            (Condition::Absent, None) => "was free",
            (Condition::Same(older), Some(found)) if older.tag == found.tag => "was unchanged",
            _ => return Err(self.refused(sending)),
        };
        let url = &sending.url;
        self.note = Some(format!(
            "the store has no conditional multipart upload, so ferry only checked beforehand that {url} {outcome}"
        ));
        self.condition = Condition::Any;
        Ok(())
    }

    /// Returns whether the object that now has the name is the uploaded object.
    async fn is_visible(&self, sending: &UploadContext) -> bool {
        let Ok(found) = sending.store.head(&sending.location).await else { return false };
        let tag = found.e_tag.as_deref().unwrap_or_default().trim_matches('"').to_owned();
        let is_older =
            matches!(&self.condition, Condition::Same(older) if older.tag == version_of(&found).stamp().tag);
        let is_ours = match &self.tag {
            Tag::Whole(whole) => tag == *whole,
            Tag::End(end) => tag.ends_with(end.as_str()),
            Tag::Unknown => true,
        };
        found.size == self.len && is_ours && !is_older
    }

    fn refused(&self, sending: &UploadContext) -> Error {
        match self.condition {
            Condition::Same(_) => {
                Error::transient("another process has replaced the object").file(&*sending.url)
            }
            _ => Error::usage(format!("{} exists; use --force to replace it", sending.url)),
        }
    }
}

impl UploadContext {
    fn error_of(&self, store_error: &StoreError) -> Error {
        match store_error.is_of_bucket() {
            true => store_error.clone().error(),
            false => Error::transient("the upload was aborted by another process").file(&*self.url),
        }
    }
}

/// Returns the `ETag` in the tag of a stamp. Returns `None` if the tag does not contain an `ETag`.
fn etag(tag: &str) -> Option<&str> {
    tag.strip_prefix("etag:").filter(|tag| !tag.starts_with("W/"))
}

/// Computes the tag that S3 assigns to a multipart upload: the MD5 digest of the parts' MD5
/// digests, and the number of parts. If the tags of the parts are not MD5 digests, only the number
/// of parts is known. Tags are not MD5 digests if the store encrypts objects, for example.
fn tag_of(parts: &[PartId]) -> Tag {
    let end = format!("-{}", parts.len());
    let mut all = Md5::new();
    for part in parts {
        let text = part.content_id.replace("&quot;", "");
        let tag = text.split_once("<ETag>").and_then(|(_, rest)| rest.split_once("</ETag>"));
        let tag = tag.map_or(text.as_str(), |(tag, _)| tag).trim_matches('"');
        match bytes_of(tag) {
            Some(bytes) => all.update(bytes),
            None => return Tag::End(end),
        }
    }
    Tag::Whole(hex(&all.finalize()) + &end)
}

fn bytes_of(hex: &str) -> Option<Vec<u8>> {
    let is_digest = hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = is_digest.then(|| hex.as_bytes().chunks_exact(2))?;
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_parts_is_the_one_that_s3_makes() {
        // The test has two parts, as in an example in the AWS documentation.
        let part = |text: &str| PartId { content_id: text.to_owned() };
        let one = hex(&Md5::digest(b"one"));
        let two = hex(&Md5::digest(b"two"));
        let both = [Md5::digest(b"one").to_vec(), Md5::digest(b"two").to_vec()].concat();
        let expected = hex(&Md5::digest(&both)) + "-2";
        let found = tag_of(&[
            part(&format!("\"{one}\"")),
            part(&format!("<PartMetadata><ETag>&quot;{two}&quot;</ETag></PartMetadata>")),
        ]);
        assert!(matches!(found, Tag::Whole(tag) if tag == expected));
        assert!(matches!(tag_of(&[part("\"other\"")]), Tag::End(end) if end == "-1"));
    }
}
