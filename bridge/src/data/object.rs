//! Objects of remote stores: `s3://`, `gs://`, `http://` and `https://`, read as a stream that can begin anywhere.
//!
//! The one idea: one request, then bytes in order, each wait bounded; a stream that breaks says where, and the caller
//! opens another from there, bound to the same version of the object. Requests that fail before their answer are
//! repeated here, a bounded number of times. Credentials come from the environment's standard variables only: without
//! them requests are not signed, and no metadata service is asked.

use crate::error::Failure;
use futures_util::stream::BoxStream;
use futures_util::StreamExt;
use object_store::aws::AmazonS3Builder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::http::HttpBuilder;
use object_store::path::Path;
use object_store::{BackoffConfig, ClientOptions, GetOptions, GetRange, ObjectStore, RetryConfig};
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long and how often a store is tried.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FetchLimits {
    pub retries: u32,
    pub first_wait_ms: u32,
    pub timeout_ms: u32, // without an answer, or between two parts of a body
}

/// What a caller can do about a failure.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i32)]
pub enum Kind {
    Other = 0,
    NotFound = 1,
    Denied = 2,
    Changed = 3, // the object is not the version asked for
    Broken = 4,  // the stream broke or stalled: open another from there
    NoRange = 5, // the server cannot begin in the middle
}

#[derive(Debug)]
pub struct ObjectError {
    pub kind: Kind,
    pub message: String,
}

impl From<Failure> for ObjectError {
    fn from(failure: Failure) -> Self {
        ObjectError { kind: Kind::Other, message: failure.0 }
    }
}

pub struct ObjectMeta {
    pub size: u64,
    pub begin: u64,
    pub modified_ns: i64,
    pub etag: String,
}

pub struct ObjectStream {
    meta: ObjectMeta,
    at: u64,
    timeout: Duration,
    body: BoxStream<'static, object_store::Result<bytes::Bytes>>,
}

fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        // Fails only if the process has installed one already, which serves as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a thread for network input")
    })
}

fn is_set(names: &[&str]) -> bool {
    names.iter().any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()))
}

fn client_options(limits: FetchLimits) -> ClientOptions {
    // A body takes as long as it takes: every wait for a part of it is bounded instead.
    ClientOptions::new()
        .with_timeout_disabled()
        .with_connect_timeout(Duration::from_millis(u64::from(limits.timeout_ms)))
}

fn retry_config(limits: FetchLimits) -> RetryConfig {
    let first = Duration::from_millis(u64::from(limits.first_wait_ms));
    RetryConfig {
        backoff: BackoffConfig { init_backoff: first, max_backoff: first * 32, base: 2.0 },
        max_retries: limits.retries as usize,
        retry_timeout: Duration::from_secs(120),
    }
}

// "s3://bucket/some/key" -> ("bucket", "some/key")
fn bucket_and_key(url: &str) -> Result<(&str, Path), Failure> {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || key.is_empty() {
        return Err(Failure::new("expected a bucket and a key, as in s3://bucket/folder/file"));
    }
    let path = Path::parse(key).map_err(|e| Failure::new(e.to_string()))?;
    Ok((bucket, path))
}

fn make_s3(url: &str, limits: FetchLimits) -> Result<(Arc<dyn ObjectStore>, Path), Failure> {
    let (bucket, key) = bucket_and_key(url)?;
    let has_credentials = is_set(&[
        "AWS_ACCESS_KEY_ID",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    ]);
    let endpoint = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(
            // Whoever names a plain endpoint wants it.
            client_options(limits)
                .with_allow_http(endpoint.as_ref().is_some_and(|e| e.starts_with("http://"))),
        )
        .with_retry(retry_config(limits))
        .with_bucket_name(bucket);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if !has_credentials {
        builder = builder.with_skip_signature(true);
    }
    Ok((Arc::new(builder.build().map_err(|e| Failure::new(e.to_string()))?), key))
}

fn make_gcs(url: &str, limits: FetchLimits) -> Result<(Arc<dyn ObjectStore>, Path), Failure> {
    let (bucket, key) = bucket_and_key(url)?;
    let has_credentials = is_set(&[
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "GOOGLE_BEARER_TOKEN",
    ]);
    let base = std::env::var("GOOGLE_BASE_URL").unwrap_or_default();
    let mut builder = GoogleCloudStorageBuilder::from_env()
        .with_client_options(client_options(limits).with_allow_http(base.starts_with("http://")))
        .with_retry(retry_config(limits))
        .with_bucket_name(bucket);
    if !has_credentials {
        builder = builder.with_skip_signature(true);
    }
    Ok((Arc::new(builder.build().map_err(|e| Failure::new(e.to_string()))?), key))
}

fn make_store(url: &str, limits: FetchLimits) -> Result<(Arc<dyn ObjectStore>, Path), Failure> {
    match url.split_once("://").map(|(scheme, _)| scheme) {
        Some("s3") => make_s3(url, limits),
        Some("gs") => make_gcs(url, limits),
        Some("http" | "https") => {
            let store = HttpBuilder::new()
                .with_url(url)
                .with_client_options(client_options(limits).with_allow_http(true))
                .with_retry(retry_config(limits))
                .build()
                .map_err(|e| Failure::new(e.to_string()))?;
            Ok((Arc::new(store), Path::default()))
        }
        _ => Err(Failure::new("expected s3://, gs://, http:// or https://")),
    }
}

// The error's own words, then those of its causes that they do not hold already.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(e) = cause {
        let more = e.to_string();
        if !text.contains(&more) {
            text += &format!(": {more}");
        }
        cause = e.source();
    }
    text
}

fn classify(error: object_store::Error, ranged: bool) -> ObjectError {
    use object_store::Error as E;
    let message = words(&error);
    let kind = match error {
        E::NotFound { .. } => Kind::NotFound,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => Kind::Denied,
        E::Precondition { .. } => Kind::Changed,
        E::NotSupported { .. } if ranged => Kind::NoRange,
        _ if ranged && (message.contains("non-partial response") || message.contains("416")) => Kind::NoRange,
        _ => Kind::Other,
    };
    ObjectError { kind, message }
}

async fn bounded<T>(limit: Duration, what: &str, work: impl Future<Output = T>) -> Result<T, ObjectError> {
    tokio::time::timeout(limit, work).await.map_err(|_| ObjectError {
        kind: Kind::Broken,
        message: format!("{what} for {:.3} s", limit.as_secs_f64()),
    })
}

impl ObjectStream {
    /// Bytes from `begin` on. `same_as`: the etag that the object must still have; empty: any.
    pub fn open(url: &str, begin: u64, same_as: &str, limits: FetchLimits) -> Result<Self, ObjectError> {
        runtime();
        let (store, path) = make_store(url, limits)?;
        let timeout = Duration::from_millis(u64::from(limits.timeout_ms));
        let options = GetOptions {
            range: (begin > 0).then_some(GetRange::Offset(begin)),
            if_match: (!same_as.is_empty()).then(|| same_as.to_string()),
            ..GetOptions::default()
        };
        // Requests are repeated inside, so the whole may take one wait each.
        let whole = timeout * (limits.retries + 1);
        let answer = runtime().block_on(bounded(whole, "no answer", store.get_opts(&path, options)))?;
        let answer = answer.map_err(|e| classify(e, begin > 0))?;
        let meta = ObjectMeta {
            size: answer.meta.size,
            begin: answer.range.start,
            modified_ns: answer.meta.last_modified.timestamp_nanos_opt().unwrap_or(0),
            etag: answer.meta.e_tag.clone().unwrap_or_default(),
        };
        if !same_as.is_empty() && meta.etag != same_as {
            // Servers may ignore If-Match.
            return Err(ObjectError {
                kind: Kind::Changed,
                message: format!("is version {} now, not {same_as}", meta.etag),
            });
        }
        Ok(ObjectStream { at: meta.begin, meta, timeout, body: answer.into_stream() })
    }

    pub fn meta(&self) -> &ObjectMeta {
        &self.meta
    }

    /// The next bytes; none after the last.
    pub fn next(&mut self) -> Result<Vec<u8>, ObjectError> {
        let next = runtime().block_on(bounded(self.timeout, "no byte", self.body.next()))?;
        match next {
            Some(Ok(bytes)) => {
                self.at += bytes.len() as u64;
                Ok(bytes.into())
            }
            Some(Err(e)) => Err(ObjectError { kind: Kind::Broken, message: words(&e) }),
            None if self.at < self.meta.size => Err(ObjectError {
                kind: Kind::Broken,
                message: format!("the answer ended after {} of {} bytes", self.at, self.meta.size),
            }),
            None => Ok(Vec::new()),
        }
    }
}
