//! Clock, shutdown and error chains that every part of Corten shares.
