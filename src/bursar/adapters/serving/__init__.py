"""An HTTPS server and the certificate it shows, for every process of Bursar that answers others."""
