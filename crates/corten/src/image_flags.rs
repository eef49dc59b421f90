//! Limits on the images that the built-in container runtime unpacks. Flags of a node, whatever else runs in its process.

use std::time::Duration;

use corten_api::quantity::Quantity;
use corten_container::image::Limits;

use crate::server::parse_duration;

#[derive(clap::Args, Clone)]
pub(crate) struct ImageFlags {
    /// Size that an image layer may always unpack to, whatever its compressed size.
    #[arg(long, value_name = "SIZE", default_value = "10Gi", value_parser = size)]
    image_max_unpacked_size: u64,
    /// Size that an image layer may unpack to beyond --image-max-unpacked-size, as a multiple of its compressed size.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..))]
    image_max_unpack_ratio: u64,
    /// Number of files, directories and links that an image layer may have.
    #[arg(long, value_name = "N", default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    image_max_layer_entries: u64,
    /// Time that unpacking all layers of an image may take.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    image_unpack_timeout: Duration,
}

impl ImageFlags {
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            ratio: self.image_max_unpack_ratio,
            unpacked_bytes: self.image_max_unpacked_size,
            entries: self.image_max_layer_entries,
            time: self.image_unpack_timeout,
            ..Limits::default()
        }
    }
}

/// A number of bytes, as Kubernetes writes quantities.
fn size(text: &str) -> Result<u64, String> {
    let bytes = Quantity::parse(text).map(|quantity| quantity.value()).map_err(|error| error.to_string())?;
    u64::try_from(bytes).ok().filter(|bytes| *bytes > 0).ok_or_else(|| "must be greater than 0".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        images: ImageFlags,
    }

    fn limits(args: &[&str]) -> Result<Limits, clap::Error> {
        let args = ["corten"].into_iter().chain(args.iter().copied());
        Command::try_parse_from(args).map(|command| command.images.limits())
    }

    #[test]
    fn flags_set_the_limits_of_images() {
        assert_eq!(limits(&[]).unwrap(), Limits::default(), "the defaults are those of the runtime");
        let given = limits(&[
            "--image-max-unpacked-size=20Gi",
            "--image-max-unpack-ratio=50",
            "--image-max-layer-entries=1000",
            "--image-unpack-timeout=90s",
        ]);
        let expected = Limits {
            ratio: 50,
            unpacked_bytes: 20 << 30,
            entries: 1000,
            time: Duration::from_secs(90),
            ..Limits::default()
        };
        assert_eq!(given.unwrap(), expected);
        for bad in
            ["--image-max-unpacked-size=0", "--image-max-unpacked-size=big", "--image-max-unpack-ratio=0"]
        {
            assert!(limits(&[bad]).is_err(), "{bad}");
        }
    }
}
