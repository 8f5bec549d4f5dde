//! The thread on which connections and renewals run.

use std::convert::Infallible;
use std::process;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use syncguard_core::{DynBackend, LockBackend as _, LockError};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// A backend, and its runtime on a thread of its own. The drop ends the thread, which first gives back what is left.
pub(super) struct Driver {
    pub(super) backend: DynBackend,
    runtime: Handle,
    /// Tells the thread to end. `None` in the drop.
    end: Option<oneshot::Sender<DynBackend>>,
    thread: Option<JoinHandle<()>>,
    /// The process that has the thread: a fork does not copy it.
    process: u32,
}

impl Driver {
    /// Starts the thread, and opens a backend there.
    pub(super) fn start(
        opening: impl Future<Output = Result<DynBackend, LockError>>,
        asynchronous: &str,
    ) -> Result<Self, LockError> {
        refuse_in_runtime(asynchronous)?;
        let no_thread = |_| LockError::internal("the system gives no thread for the connections");
        let runtime = Builder::new_current_thread().enable_all().build().map_err(no_thread)?;
        let handle = runtime.handle().clone();
        let (end, ended) = oneshot::channel();
        let thread = thread::Builder::new().name("syncguard".to_owned());
        let thread = Some(thread.spawn(move || drive(runtime, ended)).map_err(no_thread)?);
        // After an error the thread ends, because `end` is dropped.
        let backend = handle.block_on(opening)?;
        Ok(Self { backend, runtime: handle, end: Some(end), thread, process: process::id() })
    }

    /// Runs a future on the caller's thread, with the connections and timers of the driver.
    pub(super) fn run<F: Future>(
        &self,
        future: F,
        asynchronous: &str,
    ) -> Result<F::Output, LockError> {
        refuse_in_runtime(asynchronous)?;
        if self.is_forked() {
            return Err(LockError::invalid_argument(
                "this process was forked after blocking::connect; connect after the fork",
            ));
        }
        Ok(self.runtime.block_on(future))
    }

    /// Runs a future on the driver's thread, drops the value there, and then lets the caller go on, unless it is in a
    /// runtime: it goes on at once. In the drop of a thread's local variable, [`Handle::block_on`] would panic.
    pub(super) fn finish<T: Send + 'static>(
        &self,
        future: impl Future<Output = ()> + Send + 'static,
        value: T,
    ) {
        let (done, is_done) = std::sync::mpsc::channel::<Infallible>();
        self.runtime.spawn(async move {
            // The last one is dropped first, also if the future panics.
            let (_done, _value) = (done, value);
            future.await;
        });
        if !is_in_runtime() {
            // Always an error, when the task has dropped the sender.
            let _ = is_done.recv();
        }
    }

    pub(super) fn is_forked(&self) -> bool {
        process::id() != self.process
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if self.is_forked() {
            // Nothing of it is the child's to end.
            std::mem::forget((self.end.take(), self.backend.clone()));
            return;
        }
        let told = self.end.take().map(|end| end.send(self.backend.clone()));
        // The last handle may be dropped on the driver's own thread, for example by a handler of release errors.
        if let (Some(Ok(())), false, Some(thread)) = (told, is_in_runtime(), self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// The driver's thread.
fn drive(runtime: Runtime, ended: oneshot::Receiver<DynBackend>) {
    runtime.block_on(async {
        if let Ok(backend) = ended.await {
            backend.drained(backend.client_state().dispose_timeout()).await;
        }
    });
    // Does not wait for look-ups of names that hang.
    runtime.shutdown_timeout(Duration::ZERO);
}

fn is_in_runtime() -> bool {
    Handle::try_current().is_ok()
}

fn refuse_in_runtime(asynchronous: &str) -> Result<(), LockError> {
    if !is_in_runtime() {
        return Ok(());
    }
    Err(LockError::invalid_argument(format!(
        "a call of syncguard::blocking in a tokio runtime, where nothing may block; await {asynchronous} there"
    )))
}
