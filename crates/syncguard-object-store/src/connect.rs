//! Makes the driver's stores.

use std::sync::Arc;

use object_store::ObjectStore;
use syncguard_core::LockError;

use crate::config::ObjectStoreOptions;

/// Makes the store that the options name. Sends nothing.
///
/// # Errors
///
/// `InvalidArgument` for a bad setting, and for a store whose feature is not enabled.
pub(crate) fn open(options: &ObjectStoreOptions) -> Result<Arc<dyn ObjectStore>, LockError> {
    if tokio::runtime::Handle::try_current().is_err() {
        return Err(LockError::invalid_argument("a backend on a bucket needs a tokio runtime"));
    }
    match options.scheme {
        #[cfg(feature = "aws")]
        "s3" => cloud::s3(options),
        #[cfg(feature = "azure")]
        "az" => cloud::azure(options),
        #[cfg(feature = "gcp")]
        "gs" => cloud::google(options),
        scheme => {
            let feature = match scheme {
                "s3" => "aws",
                "az" => "azure",
                _ => "gcp",
            };
            Err(LockError::invalid_argument(format!(
                "a URL that begins with {scheme}:// needs the feature `{feature}` of syncguard-object-store or syncguard"
            )))
        }
    }
}

#[cfg(any(feature = "aws", feature = "azure", feature = "gcp"))]
mod cloud {
    use std::sync::Arc;
    use std::time::Duration;

    use object_store::{ClientConfigKey, ObjectStore, RetryConfig};
    use syncguard_core::LockError;

    use crate::config::ObjectStoreOptions;
    use crate::http::Connector;

    type Made = Result<Arc<dyn ObjectStore>, LockError>;

    /// The error of a setting that the driver refuses. Its text may have the setting's value.
    fn refused() -> LockError {
        LockError::invalid_argument(
            "object_store refuses its settings, from environment variables, the URL or the program; see its documentation",
        )
    }

    /// A setting that the driver does not know.
    fn unknown(key: &str) -> LockError {
        LockError::invalid_argument(format!("object_store has no setting `{key}` for this store"))
    }

    /// Tries nothing again by itself: the same write twice could be told that it had lost to another.
    fn no_retries() -> RetryConfig {
        RetryConfig { max_retries: 0, ..RetryConfig::default() }
    }

    /// The settings of the HTTP client, over those of environment variables.
    fn client(options: &ObjectStoreOptions) -> Vec<(ClientConfigKey, String)> {
        let millis = |time: Duration| format!("{}ms", time.as_millis());
        let is_plain = options.endpoint.as_ref().is_some_and(|it| it.starts_with("http://"));
        let mut settings = vec![
            (ClientConfigKey::Timeout, millis(options.common.request_timeout)),
            (ClientConfigKey::ConnectTimeout, millis(options.common.connect_timeout)),
            // Shorter than what proxies and address translators forget connections after.
            (ClientConfigKey::PoolIdleTimeout, "30s".to_owned()),
        ];
        if is_plain || options.emulator.is_some() {
            settings.push((ClientConfigKey::AllowHttp, "true".to_owned()));
        }
        settings
    }

    /// Takes the environment variables, and over them the program's settings.
    macro_rules! builder {
        ($builder:ty, $key:ty, $options:ident) => {{
            let mut builder =
                <$builder>::from_env().with_retry(no_retries()).with_http_connector(Connector);
            for (key, value) in client($options) {
                builder = builder.with_config(<$key>::Client(key), value);
            }
            for (key, value) in &$options.settings {
                let known: $key = key.parse().map_err(|_| unknown(key))?;
                builder = builder.with_config(known, value);
            }
            if $options.is_anonymous {
                builder = builder.with_skip_signature(true);
            }
            builder
        }};
    }

    #[cfg(feature = "aws")]
    pub(super) fn s3(options: &ObjectStoreOptions) -> Made {
        use object_store::aws::AmazonS3ConfigKey as Setting;
        let mut builder = builder!(object_store::aws::AmazonS3Builder, Setting, options);
        builder = builder.with_bucket_name(&options.bucket);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = &options.region {
            builder = builder.with_region(region);
        }
        Ok(Arc::new(builder.build().map_err(|_| refused())?))
    }

    #[cfg(feature = "azure")]
    pub(super) fn azure(options: &ObjectStoreOptions) -> Made {
        use object_store::azure::AzureConfigKey as Setting;
        /// The account of every emulator, which Microsoft's documentation has.
        const ACCOUNT: &str = "devstoreaccount1";
        const ACCOUNT_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
        let mut builder = builder!(object_store::azure::MicrosoftAzureBuilder, Setting, options);
        builder = builder.with_container_name(&options.bucket);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_endpoint(endpoint.clone());
        }
        if let Some(emulator) = &options.emulator {
            // The driver's own switch for emulators takes the address from an environment variable alone.
            builder = builder
                .with_account(ACCOUNT)
                .with_access_key(ACCOUNT_KEY)
                .with_endpoint(format!("http://{emulator}/{ACCOUNT}"));
        }
        Ok(Arc::new(builder.build().map_err(|_| refused())?))
    }

    #[cfg(feature = "gcp")]
    pub(super) fn google(options: &ObjectStoreOptions) -> Made {
        use object_store::gcp::GoogleConfigKey as Setting;
        let mut builder = builder!(object_store::gcp::GoogleCloudStorageBuilder, Setting, options);
        builder = builder.with_bucket_name(&options.bucket);
        if let Some(endpoint) = &options.endpoint {
            builder = builder.with_base_url(endpoint);
        }
        Ok(Arc::new(builder.build().map_err(|_| refused())?))
    }
}
