//! The connector, which sees each answer: it reads the `Date`, and passes on the status of a failure.

use std::fmt;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
    ReqwestConnector,
};
use syncguard_core::authoring::SentAt;

use crate::clock::Listens;

/// Makes clients that see answers.
#[derive(Debug)]
pub(crate) struct Connector;

#[derive(Debug)]
struct Client(HttpClient);

/// An answer whose status is none of those that the driver has variants for, and whose text is left out.
#[derive(Debug)]
pub(crate) struct Answered(pub(crate) u16);

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.0)
    }
}

impl std::error::Error for Answered {}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Client(ReqwestConnector::default().connect(options)?)))
    }
}

impl HttpService for Client {
    // As the attribute `async_trait` writes it.
    fn call<'life0, 'async_trait>(
        &'life0 self,
        request: HttpRequest,
    ) -> std::pin::Pin<
        Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'async_trait>,
    >
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            let listens = request.extensions().get::<Listens>().cloned();
            let sent = SentAt::now();
            let answer = self.0.execute(request).await?;
            let Some(Listens(ear)) = listens else { return Ok(answer) };
            if let Some(date) = date(&answer) {
                ear.hears_date(sent, date);
            }
            match answer.status().as_u16() {
                200..300 | 304 | 401 | 403 | 404 | 409 | 412 => Ok(answer),
                status => Err(HttpError::new(HttpErrorKind::Unknown, Answered(status))),
            }
        })
    }
}

/// The second in which the server has answered. A cache answers with the time of an earlier answer, and with its age.
fn date(answer: &HttpResponse) -> Option<i64> {
    if answer.headers().contains_key("age") {
        return None;
    }
    let date = answer.headers().get("date")?.to_str().ok()?;
    let time = httpdate::parse_http_date(date).ok()?;
    let since = time.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}
