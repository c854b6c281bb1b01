//! Style, scripts and icon of the pages, which are inside the binary. The scripts are ES modules that browsers load as
//! they are; there is no build step.

use super::not_found::no_asset;
use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

/// A file by its name, its media type and its content.
type Asset = (&'static str, &'static str, &'static str);

macro_rules! assets {
    ($($media:literal: $($name:literal)*;)*) => {
        &[$($(($name, $media, include_str!(concat!("../../assets/", $name)))),*),*]
    };
}

/// Every asset.
pub(super) const ASSETS: &[Asset] = assets! {
    "text/css; charset=utf-8": "style.css";
    "image/svg+xml": "icon.svg";
    "text/javascript; charset=utf-8":
        "actions.js" "api.js" "chart.js" "clock.js" "dialogs.js" "dom.js" "format.js" "job-dependencies.js"
        "job-draft.js" "job-fields.js" "job-graph.js" "job-preview.js" "job-problems.js" "job-schema.js" "job-toml.js"
        "keys.js" "live.js" "log.js" "new.js" "page.js" "policy.js" "refresh.js" "selection.js" "stream.js" "table.js"
        "what-if.js";
};

/// Serves one of them. Its address has no version, so browsers revalidate it by its entity tag each time.
pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|(known, ..)| *known == name) {
        Some((_, media, content)) => {
            ([(CONTENT_TYPE, *media), (CACHE_CONTROL, "no-cache")], *content).into_response()
        }
        None => no_asset(),
    }
}
