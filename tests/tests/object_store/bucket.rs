//! A bucket in this process, whose time is tokio's, and connections to it that go wrong.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::FutureExt as _;
use futures_util::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use syncguard_conformance::RequestGate;
use syncguard_object_store::{ObjectStoreBackend, ObjectStoreOptions, object_store};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::object_store::support::name_of;

type Date = chrono::DateTime<chrono::Utc>;

/// The prefix of the tests.
const PREFIX: &str = "locks";

/// How a bucket takes writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Heeds their conditions.
    #[default]
    Right,
    /// Ignores `If-Match`, as some stores do.
    IgnoresMatch,
    /// Ignores all conditions.
    IgnoresAll,
    /// Heeds a condition, but carries out two writes of one moment.
    Racy,
}

/// The objects, shared by all connections.
pub(crate) struct Bucket {
    kind: Kind,
    objects: InMemory,
    /// When each object was written.
    written: Mutex<HashMap<Path, Instant>>,
    began: Instant,
    /// The date of the beginning.
    epoch: Mutex<Option<Date>>,
    /// The methods and folders of the requests, such as `PUT k`.
    requests: Mutex<Vec<String>>,
}

/// A connection.
#[derive(Clone)]
pub(crate) struct Line(Arc<Bucket>, Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// The next write of a key is held back.
    holds: bool,
    held: Vec<Held>,
    /// The next write of a key is carried out, and its answer lost; or it is carried out twice, and the second answer comes.
    loses: bool,
    doubles: bool,
}

struct Held {
    sender: Option<oneshot::Sender<Result<PutResult>>>,
    write: (Path, PutPayload, PutOptions),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bucket {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self {
            kind,
            objects: InMemory::new(),
            written: Mutex::default(),
            began: Instant::now(),
            epoch: Mutex::default(),
            requests: Mutex::default(),
        })
    }

    pub(crate) fn line(self: &Arc<Self>) -> Line {
        Line(Arc::clone(self), Arc::default())
    }

    /// The time, for backends that know it exactly.
    #[cfg(feature = "seams")]
    pub(crate) fn now(&self) -> std::time::SystemTime {
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_800_000_000) + self.began.elapsed()
    }

    /// The requests since the last question.
    pub(crate) fn requests(&self) -> Vec<String> {
        std::mem::take(&mut lock(&self.requests))
    }

    fn put(&self, name: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let ignores = match options.mode {
            PutMode::Update(_) => self.kind != Kind::Right && self.kind != Kind::Racy,
            _ => self.kind == Kind::IgnoresAll,
        };
        if ignores {
            options.mode = PutMode::Overwrite;
        }
        let done = self.objects.put_opts(name, payload, options).now_or_never();
        let done = done.expect("a bucket in memory")?;
        lock(&self.written).insert(name.clone(), Instant::now());
        Ok(done)
    }

    /// Writes an object of a key without the library.
    pub(crate) fn write(&self, key: &str, fields: &str) {
        let body = format!(r#"{{"key":"{key}","revision":1,"nonce":"by hand",{fields}}}"#);
        self.put(&name_of(PREFIX, key), body.into(), PutOptions::default()).expect("a write");
    }

    /// The names of all objects but those of the checks and of the time.
    pub(crate) fn names(&self) -> Vec<String> {
        let folders = ["locks/k", "locks/i"].map(Path::from);
        let listed = |folder| self.objects.list_with_delimiter(Some(folder)).now_or_never();
        let all = folders.iter().filter_map(listed).flatten().flat_map(|it| it.objects);
        all.map(|it| it.location.to_string()).collect()
    }
}

impl Line {
    /// A backend over this connection.
    pub(crate) fn backend(&self, options: ObjectStoreOptions) -> ObjectStoreBackend {
        let options = options.with_prefix(PREFIX);
        ObjectStoreBackend::from_store_with(Arc::new(self.clone()), options).expect("a backend")
    }

    pub(crate) fn loses_the_next_answer(&self) {
        lock(&self.1).loses = true;
    }

    pub(crate) fn doubles_the_next_write(&self) {
        lock(&self.1).doubles = true;
    }

    fn counts(&self, method: &str, name: &Path) {
        let folder = name.parts().nth(1).map_or_else(String::new, |part| part.as_ref().to_owned());
        lock(&self.0.requests).push(format!("{method} {folder}"));
    }

    fn cut() -> Error {
        Error::Generic { store: "a bucket in memory", source: "the connection was cut".into() }
    }
}

#[async_trait::async_trait]
impl ObjectStore for Line {
    async fn put_opts(
        &self,
        name: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        self.counts("PUT", name);
        let is_of_a_key = name.as_ref().contains("/k/");
        if self.0.kind == Kind::Racy && options.mode != PutMode::Overwrite {
            // Writers that ask now see the state of now.
            let seen = self.0.objects.get_opts(name, GetOptions::default()).await.ok();
            tokio::task::yield_now().await;
            let is_as_wanted = match (&options.mode, seen) {
                (PutMode::Update(wanted), Some(seen)) => wanted.e_tag == seen.meta.e_tag,
                (PutMode::Create, seen) => seen.is_none(),
                _ => false,
            };
            if is_as_wanted {
                return self.0.put(name, payload, PutOptions::default());
            }
        }
        let (holds, loses, doubles) = {
            let mut state = lock(&self.1);
            let mut takes =
                |it: fn(&mut State) -> &mut bool| is_of_a_key && std::mem::take(it(&mut state));
            (takes(|it| &mut it.holds), takes(|it| &mut it.loses), takes(|it| &mut it.doubles))
        };
        if holds {
            let (sender, waits) = oneshot::channel();
            let write = (name.clone(), payload, options);
            lock(&self.1).held.push(Held { sender: Some(sender), write });
            return waits.await.unwrap_or_else(|_| Err(Self::cut()));
        }
        if doubles {
            let _ = self.0.put(name, payload.clone(), options.clone());
        }
        let done = self.0.put(name, payload, options);
        if loses { Err(Self::cut()) } else { done }
    }

    async fn get_opts(&self, name: &Path, options: GetOptions) -> Result<GetResult> {
        self.counts("GET", name);
        let mut found = self.0.objects.get_opts(name, options).await?;
        let written = lock(&self.0.written).get(name).copied().unwrap_or(self.0.began);
        // The date moves with tokio's clock, from the first one that was seen.
        let began = *lock(&self.0.epoch).get_or_insert(found.meta.last_modified);
        found.meta.last_modified = began + written.duration_since(self.0.began);
        Ok(found)
    }

    fn delete_stream(
        &self,
        names: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let line = self.clone();
        let names = futures_util::StreamExt::inspect(names, move |name| {
            if let Ok(name) = name {
                line.counts("DELETE", name);
            }
        });
        self.0.objects.delete_stream(Box::pin(names))
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.counts("LIST", prefix.unwrap_or(&Path::default()));
        self.0.objects.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.0.objects.list_with_delimiter(prefix).await
    }

    async fn put_multipart_opts(
        &self,
        name: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.0.objects.put_multipart_opts(name, options).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.objects.copy_opts(from, to, options).await
    }
}

impl RequestGate for Line {
    fn hold(&self) {
        lock(&self.1).holds = true;
    }

    fn holds(&self) -> bool {
        !lock(&self.1).held.is_empty()
    }

    fn cut(&self) {
        lock(&self.1).held.iter_mut().for_each(|held| held.sender = None);
    }

    fn deliver(&self) {
        let held = std::mem::take(&mut lock(&self.1).held);
        for Held { sender, write: (name, payload, options) } in held {
            // A condition that does not hold any more makes it void.
            let result = self.0.put(&name, payload, options);
            let _ = sender.map(|sender| sender.send(result));
        }
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Line")
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a bucket in memory")
    }
}
